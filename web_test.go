package freshet

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestHealthIsCheckedOnceInAWhile: a crowd that asks for the health costs one check at a
// time, and one each keepHealth; what that found is what all are told.
func TestHealthIsCheckedOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found error
		checks, atOnce := 0, 0
		h := newHealth(func(context.Context) error {
			if atOnce++; atOnce > 1 {
				t.Error("two checks at once")
			}
			time.Sleep(time.Second)
			atOnce--
			checks++
			return found
		})
		crowd := func(want error, wantChecks int) {
			t.Helper()
			var wg sync.WaitGroup
			for range 1000 {
				wg.Go(func() {
					if err := h.ask(t.Context()); err != want {
						t.Errorf("got %v, want %v", err, want)
					}
				})
			}
			wg.Wait()
			if checks != wantChecks {
				t.Errorf("%d checks until now, want %d", checks, wantChecks)
			}
		}
		crowd(nil, 1)
		full := errors.New("the disk is full")
		found = full
		crowd(nil, 1)
		time.Sleep(keepHealth)
		crowd(full, 2)
		found = nil
		time.Sleep(keepHealth)
		crowd(nil, 3)
	})
}

// TestHealthOfADiskThatHangs: who asks meanwhile is told so, instead of hanging, too.
func TestHealthOfADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, first := make(chan struct{}), make(chan error, 1)
		h := newHealth(func(context.Context) error { <-disk; return nil })
		go func() { first <- h.ask(t.Context()) }()
		synctest.Wait()
		began := time.Now()
		if err := h.ask(t.Context()); err == nil || !strings.Contains(err.Error(), "hangs") || time.Since(began) != healthWithin {
			t.Errorf("after %v: %v, want after %v that something hangs", time.Since(began), err, healthWithin)
		}
		ended, end := context.WithCancelCause(t.Context())
		closing := errors.New("closing")
		end(closing)
		if err := h.ask(ended); err != closing {
			t.Errorf("a node that ends: %v, want %v", err, closing)
		}
		close(disk)
		if err := <-first; err != nil {
			t.Errorf("who waited for the disk: %v", err)
		}
		if err := h.ask(t.Context()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
