package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

//go:embed libtorrent/client.py
var libtorrentProgram []byte

// libtorrent is the library of that name, driven by a program of a few lines,
// with its default settings or with those that made it fastest.
func libtorrent(source string, tuned bool) System {
	s := System{
		Name: "libtorrent " + source, Programs: []string{"python3", "mktorrent", "curl"},
		Version: says(debian("python3-libtorrent"), mktorrent),
		Tuning:  "default settings; no DHT, LSD or UPnP, which would find nobody here",
		Prepare: func(ctx context.Context, t *Trial) error {
			if err := os.WriteFile(filepath.Join(t.dir, "client.py"), libtorrentProgram, 0o644); err != nil {
				return err
			}
			return torrent(source)(ctx, t)
		},
	}
	words := ""
	if tuned {
		s.Name += " tuned"
		s.Tuning = "TCP alone, no limit of slots, one piece a web request and two under way, rarest first from the start, queues of a second; all of it in libtorrent/client.py"
		words = " tuned"
	}
	s.Run = func(_ context.Context, t *Trial) error {
		return t.swarm(source, func(node string, seeds bool) string {
			more := words
			if seeds {
				more += " seed"
			}
			return fmt.Sprintf("exec python3 -X faulthandler %s/client.py %s %s %s %v%s", t.dir, t.torrent(), t.save(node), t.Mark(node), t.lab.Addr(node), more)
		})
	}
	return s
}
