package main

import (
	"context"
	"os"

	"github.com/freshet/freshet/internal/form"
)

// asLongAs does what asks no ctx, such as waiting for who writes into a pipe. When ctx ends first it is left behind: the process ends soon after.
func asLongAs[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := do()
		done <- outcome{v, err}
	}()
	select {
	case o := <-done:
		return o.v, o.err
	case <-ctx.Done():
		var none T
		return none, errInterrupted
	}
}

// readText reads a file of at most form.MaxText bytes, or standard input if its name is "-".
func readText(ctx context.Context, name string) ([]byte, error) {
	return asLongAs(ctx, func() ([]byte, error) {
		f := os.Stdin
		if name != "-" {
			var err error
			if f, err = os.Open(name); err != nil {
				return nil, err
			}
			defer f.Close()
		}
		return form.Read(name, f)
	})
}
