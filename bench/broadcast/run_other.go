//go:build !linux

package main

import (
	"context"
	"errors"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/unit"
)

// experiment is there on Linux alone; a report can be made anywhere.
type experiment struct {
	size  unit.Bytes
	scale float64
}

func (e *experiment) run(context.Context, *bench.Cell) (map[string]float64, error) {
	return nil, errors.New("the laboratory is made of Linux's network namespaces, and this is another system")
}

func (e *experiment) close() error { return nil }
