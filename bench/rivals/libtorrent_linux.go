package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/rivals/bittorrent"
)

// libtorrent is the library of that name, driven by a program of a few lines,
// with its default settings, or tuned for a swarm of equals in one network. Of other tunings there is no record.
func libtorrent(source string, tuned bool) System {
	s := System{
		Name: "libtorrent " + source, Programs: []string{"python3", "mktorrent", "curl"},
		Version: bench.Says(bench.Debian("python3-libtorrent"), bench.Debian("mktorrent")),
		Tuning:  "default settings; no DHT, LSD or UPnP, which would find nobody here",
		Prepare: func(ctx context.Context, t *Trial) error {
			if err := os.WriteFile(filepath.Join(t.Root, "client.py"), bittorrent.LibtorrentProgram, 0o644); err != nil {
				return err
			}
			return torrent(source)(ctx, t)
		},
	}
	words := ""
	if tuned {
		s.Name += " tuned"
		s.Tuning = bittorrent.LibtorrentTuning
		words = " tuned"
	}
	s.Run = func(_ context.Context, t *Trial) error {
		return t.swarm(source, func(node string, seeds bool) string {
			more := words
			if seeds {
				more += " seed"
			}
			return "exec " + bittorrent.Libtorrent(t.Root+"/client.py", t.torrent(), t.save(node), t.Mark(node), t.Lab.Addr(node).String(), more)
		})
	}
	return s
}
