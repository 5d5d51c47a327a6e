package main

import (
	"log/slog"
	"os"
	"strconv"
	"time"
)

// slack is how much later than it was asked to the system may wake a thread.
const slack = time.Millisecond

// slacken gives the threads that there are, and so those that they will start, a timer slack (proc(5), timerslack_ns).
// The runtime's monitor would otherwise look every 70 µs what goroutines do, for as long as any does anything:
// a node whose links are not the fastest spent more of its wakes on that than on blocks.
// It takes CAP_SYS_NICE; who has it not sets TimerSlackNSec= in the unit, as packaging/freshet-agent.service does.
func slacken() {
	threads, err := os.ReadDir("/proc/self/task")
	for _, t := range threads {
		if e := os.WriteFile("/proc/"+t.Name()+"/timerslack_ns", strconv.AppendInt(nil, int64(slack), 10), 0); e != nil && !os.IsNotExist(e) {
			err = e
		}
	}
	if err != nil {
		slog.Debug("timers stay as exact as they were", "err", err)
	}
}
