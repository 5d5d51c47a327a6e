package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestSlacken: all threads have it, those that there were before, too.
func TestSlacken(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs CAP_SYS_NICE")
	}
	file := func(thread string) string { return "/proc/" + thread + "/timerslack_ns" }
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		before, err := os.ReadFile(file(thread.Name()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.WriteFile(file(thread.Name()), before, 0) })
	}
	slacken()
	for _, thread := range threads {
		got, err := os.ReadFile(file(thread.Name()))
		if want := strconv.Itoa(int(slack)); err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("thread %s has %q, %v; want %s ns", thread.Name(), got, err, want)
		}
	}
}
