package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/rivals/bittorrent"
)

// aria2 is the download tool of that name as a BitTorrent client.
func aria2(source string) System {
	return System{
		Name: "aria2 " + source, Programs: []string{"aria2c", "mktorrent", "curl"}, Version: bench.Says([]string{"aria2c", "--version"}, bench.Debian("mktorrent")),
		Tuning: bittorrent.Aria2Tuning,
		Prepare: func(ctx context.Context, t *Trial) error {
			// What aria2 calls when it has all and goes on to seed.
			hook := fmt.Sprintf("#!/bin/sh\nsync %s/*\n: >%s\n", t.Dir("$NODE"), t.Mark("$NODE"))
			if err := os.WriteFile(filepath.Join(t.Root, "hook"), []byte(hook), 0o755); err != nil {
				return err
			}
			return torrent(source)(ctx, t)
		},
		Run: func(_ context.Context, t *Trial) error {
			return t.swarm(source, func(node string, seeds bool) string {
				return fmt.Sprintf("NODE=%s exec %s", node, bittorrent.Aria2(t.torrent(), t.save(node), t.Root+"/hook", seeds))
			})
		},
	}
}
