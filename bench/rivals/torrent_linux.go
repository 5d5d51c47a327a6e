package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/freshet/freshet/bench/rivals/bittorrent"
	"github.com/freshet/freshet/bench/trial"
	"github.com/freshet/freshet/unit"
)

// What all BitTorrent clients share: who makes the torrent, where peers meet,
// and where the first bytes come from, which is
//
//	web    the store as web seed (BEP 19): every client may read ranges of it
//	seed   the first node, which downloads all beforehand; its download is in the time

// torrent is a Prepare: it has a tracker up, makes the torrent where the object lies, in pieces of this size (0: as bittorrent.Piece says), and times
// that.
func torrent(source string, piece unit.Bytes) func(context.Context, *Trial) error {
	return func(ctx context.Context, t *Trial) error {
		tracker, err := t.Serve(trial.Hub, bittorrent.TrackerPort, &bittorrent.Tracker{})
		if err != nil {
			return err
		}
		what, web := prefix, t.Web("") // a client appends the torrent's name and the file's
		if len(t.Files) == 1 {
			what = prefix + "/" + t.Files[0]
			web = t.Web(what)
		}
		if source != "web" {
			web = ""
		}
		words := bittorrent.Make(t.Stored(what), cmp.Or(piece, bittorrent.Piece(t.Size())), tracker+"/announce", web, t.torrent())
		t.note(trial.Store, words)
		began := time.Now()
		if err := t.Run(ctx, trial.Store, words...); err != nil {
			return err
		}
		t.made = time.Since(began)
		return nil
	}
}

func (t *Trial) torrent() string { return filepath.Join(t.Root, "object.torrent") }

// save is the directory in which a client finds or makes what the torrent names.
func (t *Trial) save(node string) string {
	if len(t.Files) == 1 {
		return t.Dir(node)
	}
	return filepath.Dir(t.Dir(node))
}

// swarm starts a client on every node; where the first one seeds, that one
// downloads before.
func (t *Trial) swarm(source string, client func(node string, seeds bool) string) error {
	return t.everywhere(func(node string) string {
		if source != "seed" || node != t.Nodes[0] {
			return client(node, false)
		}
		return fmt.Sprintf("%s | %s\n%s", t.Fetch(), t.Store(node), client(node, true))
	})
}
