package main

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestProcessors(t *testing.T) {
	times := func(n int, used float64) (out []float64) {
		for range n {
			out = append(out, used)
		}
		return out
	}
	for _, c := range []struct {
		name string
		used [][]float64
		want bool // all
	}{
		{"at the beginning", nil, true},
		{"idle for a moment", [][]float64{times(settled-1, 0)}, true},
		{"idle", [][]float64{times(settled, 0)}, false},
		{"idle but for once", [][]float64{times(settled-1, 0), {0.3}, times(settled-1, 0)}, true},
		{"busy at once", [][]float64{times(settled, 0), {0.6}}, true},
		{"neither idle nor busy, after it was idle", [][]float64{times(settled, 0), times(100, 0.4)}, false},
		{"neither, after it was busy", [][]float64{{3}, times(100, 0.4)}, true},
		{"busy now and then", [][]float64{{3}, times(settled-1, 0), {3}, times(settled-1, 0)}, true},
	} {
		p := processors{all: true}
		for _, part := range c.used {
			for _, used := range part {
				p.sample(used)
			}
		}
		if p.all != c.want {
			t.Errorf("%s: all %v, want %v", c.name, p.all, c.want)
		}
	}
}

// A process has all processors when it begins and within a moment of being busy, one when it has been idle for some time, and all
// again at the end; and what somebody has set stays.
func TestSpare(t *testing.T) {
	all := runtime.GOMAXPROCS(0)
	if all < 2 {
		t.Skip("needs two processors")
	}
	t.Setenv("GOMAXPROCS", "")
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var used time.Duration
		work := func(d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			used += d
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			spare(ctx, func() time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return used
			})
		}()
		look := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := runtime.GOMAXPROCS(0); got != want {
				t.Errorf("%s: %d processors, want %d", when, got, want)
			}
		}
		look("at the beginning", all)
		time.Sleep(settled * sampled)
		look("idle", 1)
		work(2 * sampled)
		time.Sleep(sampled)
		look("busy", all)
		time.Sleep(settled * sampled)
		look("idle again", 1)
		cancel()
		<-done
		look("at the end", all)
	})
	t.Setenv("GOMAXPROCS", "2")
	spare(t.Context(), nil) // or it would call that
}

// What this process takes is counted.
func TestProcessorTime(t *testing.T) {
	before := processorTime()
	for began := time.Now(); processorTime() < before+5*time.Millisecond; {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%v after %v of nothing but work", processorTime()-before, time.Since(began))
		}
	}
}
