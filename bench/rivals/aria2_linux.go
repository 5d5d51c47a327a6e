package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// aria2 is the download tool of that name as a BitTorrent client.
func aria2(source string) System {
	return System{
		Name: "aria2 " + source, Programs: []string{"aria2c", "mktorrent", "curl"}, Version: says([]string{"aria2c", "--version"}, mktorrent),
		Tuning: "no limit of peers, none asked for by how slow it is, files not allocated beforehand",
		Prepare: func(ctx context.Context, t *Trial) error {
			// What aria2 calls when it has all and goes on to seed.
			hook := fmt.Sprintf("#!/bin/sh\nsync %s/*\n: >%s\n", t.Dir("$NODE"), t.Mark("$NODE"))
			if err := os.WriteFile(filepath.Join(t.dir, "hook"), []byte(hook), 0o755); err != nil {
				return err
			}
			return torrent(source)(ctx, t)
		},
		Run: func(_ context.Context, t *Trial) error {
			return t.swarm(source, func(node string, seeds bool) string {
				more := ""
				if seeds {
					more = "--check-integrity --allow-overwrite "
				}
				return fmt.Sprintf("NODE=%s exec aria2c %s--dir=%s --seed-ratio=0 --bt-max-peers=0 --bt-request-peer-speed-limit=0 --file-allocation=none --enable-dht=false --enable-dht6=false --bt-enable-lpd=false "+
					"--disable-ipv6 --listen-port=6881 --follow-torrent=mem --no-conf --quiet --summary-interval=0 --on-bt-download-complete=%s/hook %s", node, more, t.save(node), t.dir, t.torrent())
			})
		},
	}
}
