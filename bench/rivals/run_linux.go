package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/trial"
	"github.com/freshet/freshet/internal/lab/cluster"
)

// measure makes the runs that file does not have yet.
func measure(ctx context.Context, file, typed string, s settings) error {
	if err := trial.Sweep(ctx, trials); err != nil {
		return err
	}
	all, err := chosen(systems(), tunings(), s.systems)
	if err != nil {
		return err
	}
	if _, err := cluster.Built(); err != nil { // once, and in nobody's time
		return err
	}
	e := &experiment{patience: s.patience}
	var names []string
	for _, y := range all {
		if err := y.missing(); err != nil {
			fmt.Printf("%s is left out: %v\n", y.Name, err)
			continue
		}
		e.systems = append(e.systems, y)
		names = append(names, y.Name)
	}
	if len(names) == 0 {
		return errors.New("nothing is left to be run")
	}
	var errs []error
	run := func(cells []bench.Cell) error {
		suite := suite(cells)
		suite.Case = e.run
		err := suite.Run(ctx, bench.Options{File: file, Command: typed, Log: os.Stdout})
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			errs = append(errs, err)
		}
		return nil
	}
	seeds := make([]uint64, s.seeds)
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	if s.systems != "" {
		return errors.Join(run(s.cells(names, s.kinds, seeds...)), errors.Join(errs...))
	}

	// All once, where the best are found.
	var early, late []kind
	for _, k := range s.kinds {
		if slices.ContainsFunc(kinds[:first], func(o kind) bool { return o.name == k.name }) {
			early = append(early, k)
		} else if k.others() {
			late = append(late, k)
		}
	}
	if err := run(s.cells(names, early, 1)); err != nil {
		return err
	}
	// Ours and the best as often as it takes to tell them apart.
	often := func() error {
		rs, err := bench.Read(file)
		if err != nil {
			return err
		}
		var cells []bench.Cell
		for _, k := range s.kinds {
			cells = append(cells, s.cells(s.often(rs, k), []kind{k}, seeds...)...)
		}
		return run(cells)
	}
	if err := often(); err != nil {
		return err
	}
	// The others where they were not yet, and who turned out to be near there.
	if err := run(s.cells(names, late, 1)); err != nil {
		return err
	}
	return errors.Join(often(), errors.Join(errs...))
}
