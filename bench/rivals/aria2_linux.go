package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/rivals/bittorrent"
	"github.com/freshet/freshet/unit"
)

// aria2 is the download tool of that name as a BitTorrent client. With a web seed it has what was the fastest of all that was tried: small pieces in any order,
// but as it comes where the store gives all as much as they can take.
func aria2(source string) System {
	asItComes := aria2In(0, "", source)
	if source != "web" {
		return asItComes
	}
	apart := aria2In(256*unit.KiB, "random", source)
	by := func(t *Trial) System {
		if t.kind.store == 0 {
			return asItComes
		}
		return apart
	}
	s := asItComes
	s.Tuning += "; pieces of 256 KiB, which the web seed is asked for in any order, but where the store is wide as it comes, which is faster there"
	s.Prepare = func(ctx context.Context, t *Trial) error { return by(t).Prepare(ctx, t) }
	s.Run = func(ctx context.Context, t *Trial) error { return by(t).Run(ctx, t) }
	return s
}

// aria2In has a torrent of pieces of this size (0: as bittorrent.Piece says), and takes what a web seed has in such an order (empty: its default).
func aria2In(piece unit.Bytes, order, source string) System {
	name := "aria2 " + source
	if piece > 0 {
		name += fmt.Sprintf(" (%v)", piece)
	}
	if order != "" {
		name += " (" + order + ")"
	}
	return System{
		Name: name, Programs: []string{"aria2c", "mktorrent", "curl"}, Version: bench.Says([]string{"aria2c", "--version"}, bench.Debian("mktorrent")),
		Tuning: bittorrent.Aria2Tuning,
		Prepare: func(ctx context.Context, t *Trial) error {
			// What aria2 calls when it has all and goes on to seed.
			hook := fmt.Sprintf("#!/bin/sh\nsync %s/*\n: >%s\n", t.Dir("$NODE"), t.Mark("$NODE"))
			if err := os.WriteFile(filepath.Join(t.Root, "hook"), []byte(hook), 0o755); err != nil {
				return err
			}
			return torrent(source, piece)(ctx, t)
		},
		Run: func(_ context.Context, t *Trial) error {
			return t.swarm(source, func(node string, seeds bool) string {
				return fmt.Sprintf("NODE=%s exec %s", node, bittorrent.Aria2(t.torrent(), t.save(node), t.Root+"/hook", order, seeds))
			})
		},
	}
}
