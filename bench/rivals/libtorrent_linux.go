package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/rivals/bittorrent"
	"github.com/freshet/freshet/unit"
)

// libtorrent is the library of that name, driven by a program of a few lines,
// with its default settings, or tuned for a swarm of equals in one network.
//
// Tuned, and with the store as web seed, its sessions are up beforehand, as Freshet's agents are: the clock begins when all are told to begin.
func libtorrent(source string, tuned bool) System {
	if tuned && source == "web" {
		s := libtorrentIn(bittorrent.LibtorrentPiece, source, tuned)
		s.Name = "libtorrent web tuned"
		s.Tuning += fmt.Sprintf(", pieces of %v", bittorrent.LibtorrentPiece) + "; its sessions are up when the clock begins, as Freshet's agents are"
		return s
	}
	return libtorrentIn(0, source, tuned)
}

// libtorrentIn has a torrent of pieces of this size; 0: as bittorrent.Piece says.
func libtorrentIn(piece unit.Bytes, source string, tuned bool) System {
	s := System{
		Name: "libtorrent " + source, Programs: []string{"python3", "mktorrent", "curl"},
		Version: bench.Says(bench.Debian("python3-libtorrent"), bench.Debian("mktorrent")),
		Tuning:  "default settings; no DHT, LSD or UPnP, which would find nobody here",
	}
	words, early := "", tuned && source == "web"
	if tuned {
		s.Name += " tuned"
		s.Tuning = bittorrent.LibtorrentTuning
		words = " tuned"
	}
	if piece > 0 {
		s.Name += fmt.Sprintf(" (%v)", piece)
	}
	start := func(t *Trial, more string) error {
		return t.swarm(source, func(node string, seeds bool) string {
			more := words + more
			if seeds {
				more += " seed"
			}
			return "exec " + bittorrent.Libtorrent(t.Root+"/client.py", t.torrent(), t.save(node), t.Mark(node), t.Lab.Addr(node).String(), more)
		})
	}
	s.Prepare = func(ctx context.Context, t *Trial) error {
		if err := os.WriteFile(filepath.Join(t.Root, "client.py"), bittorrent.LibtorrentProgram, 0o644); err != nil {
			return err
		}
		if err := torrent(source, piece)(ctx, t); err != nil || !early {
			return err
		}
		if err := start(t, " wait="+t.begin()); err != nil {
			return err
		}
		return t.Await(ctx, func() bool {
			return !slices.ContainsFunc(t.Nodes, func(node string) bool {
				_, err := os.Stat(t.Mark(node) + ".up")
				return err != nil
			})
		})
	}
	s.Run = func(_ context.Context, t *Trial) error {
		if early {
			return os.WriteFile(t.begin(), nil, 0o644)
		}
		return start(t, "")
	}
	return s
}

// begin is the file for which clients wait that are up beforehand.
func (t *Trial) begin() string { return filepath.Join(t.Root, "begin") }
