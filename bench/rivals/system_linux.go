package main

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/unit"
)

// System is one way to bring an object from the store to the disks of all
// nodes. Each rival has a file of its own, with the settings that it runs with.
type System struct {
	Name     string
	Programs []string                     // without which it is left out
	Build    func() error                 // makes what it needs besides, once; nil: nothing
	Version  func(context.Context) string // of its programs, as they say it
	Tuning   string                       // what it runs with

	Agents []string // flags of freshet's agents, which are up beforehand; nil: there are none

	// Prepare does what lies ready before a transfer is asked for, and counts
	// apart from it; nil: nothing does.
	Prepare func(context.Context, *Trial) error

	// Run starts the transfer. It may return before the end, which is when each
	// node has its mark; see Trial.
	Run func(context.Context, *Trial) error
}

// systems are all of them, ours first.
func systems() (all []System) {
	for _, a := range slices.Backward(freshet.Algorithms) {
		all = append(all, ours(a, "tls"))
	}
	all = append(all, ours(freshet.DefaultAlgorithm, "trusted"))
	all = append(all, downloaders()...)
	all = append(all, aria2("web"), aria2("seed"))
	all = append(all, libtorrent("web", false), libtorrent("web", true), libtorrent("seed", false), libtorrent("seed", true))
	all = append(all, anacrolix("web"), anacrolix("seed"))
	return append(all, chain(), udpcast(), openMPI())
}

// tunings are systems with other settings, to find those with which they are in systems. They run only where they are named.
func tunings() (all []System) {
	for _, piece := range []unit.Bytes{128 * unit.KiB, 512 * unit.KiB, unit.MiB} {
		all = append(all, libtorrentIn(piece, "web", true))
	}
	for _, order := range []string{"random", "default"} {
		all = append(all, aria2In(unit.MiB, order, "web"))
	}
	return append(all, aria2In(256*unit.KiB, "default", "web"))
}

// missing says which programs s lacks, or why the one that it needs could not be built.
func (s System) missing() error {
	if err := bench.Missing(s.Programs); err != nil || s.Build == nil {
		return err
	}
	return s.Build()
}

// chosen are the systems that a list of names and patterns names, with commas
// between them; an empty one names all. Others have to be named one by one.
func chosen(all, others []System, list string) (out []System, err error) {
	if list == "" {
		return all, nil
	}
	for p := range strings.SplitSeq(list, ",") {
		found := false
		for _, s := range all {
			if ok, err := path.Match(p, s.Name); err != nil {
				return nil, fmt.Errorf("--systems %q: %w", p, err)
			} else if ok {
				found = true
				if !slices.ContainsFunc(out, func(o System) bool { return o.Name == s.Name }) {
					out = append(out, s)
				}
			}
		}
		if i := slices.IndexFunc(others, func(s System) bool { return s.Name == p }); i >= 0 {
			found, out = true, append(out, others[i])
		}
		if !found {
			var names []string
			for _, s := range all {
				names = append(names, s.Name)
			}
			return nil, fmt.Errorf("--systems %q: there is no such one; there are: %s", p, strings.Join(names, ", "))
		}
	}
	return out, nil
}
