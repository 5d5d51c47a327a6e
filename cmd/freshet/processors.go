package main

import (
	"context"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// On links that are not the fastest a node takes a few hundredths of a processor, in very short pieces: a block comes, the job's loop
// hears of it, somebody asks for the next one. Each time a goroutine lets another one run while a processor is
// idle, Go's scheduler wakes a thread to run it there; by then it has mostly been run, and the thread looks for other work in vain and
// sleeps again. That was an eighth of all processor time. So a process that needs little runs on one processor at a time.

const (
	sampled = 250 * time.Millisecond // how often it is looked at
	busy    = 0.5                    // of one processor: who takes that much may have all
	idle    = busy / 2               // and who takes no more than this may do with one
	settled = 8                      // samples in a row that were idle
)

// processors is how many processors a process may use at a time: one or all.
type processors struct {
	all  bool
	idle int // samples in a row that were so
}

// sample takes in what share of one processor was used since the last one.
func (p *processors) sample(used float64) {
	switch {
	case used > busy:
		p.all, p.idle = true, 0
	case used > idle:
		p.idle = 0
	default:
		if p.idle++; p.idle >= settled {
			p.all = false
		}
	}
}

// spare keeps this process to as few processors as it needs, until ctx ends. Who has set GOMAXPROCS has decided that already.
func spare(ctx context.Context, used func() time.Duration) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	p, last, at := processors{all: true}, used(), time.Now()
	tick := time.NewTicker(sampled)
	defer tick.Stop()
	defer runtime.SetDefaultGOMAXPROCS()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		was, before, then := p.all, last, at
		last, at = used(), time.Now()
		p.sample(float64(last-before) / float64(at.Sub(then)))
		switch {
		case p.all == was:
		case p.all:
			runtime.SetDefaultGOMAXPROCS() // as many as this process may use by now
		default:
			runtime.GOMAXPROCS(1)
		}
	}
}

// processorTime is what this process has taken so far, in user mode and in the kernel, of all processors together.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0 // not for a pointer and a constant that are right: getrusage(2)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
