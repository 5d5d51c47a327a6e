package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/freshet/freshet/bench/rivals/bittorrent"
)

// What all BitTorrent clients share: who makes the torrent, where peers meet,
// and where the first bytes come from, which is
//
//	web    the store as web seed (BEP 19): every client may read ranges of it
//	seed   the first node, which downloads all beforehand; its download is in the time

// torrent is a Prepare: it makes the torrent where the object lies, and times
// that, and has a tracker up.
func torrent(source string) func(context.Context, *Trial) error {
	return func(ctx context.Context, t *Trial) error {
		announce := fmt.Sprintf("http://%v:%d/announce", t.lab.Addr(hubHost), bittorrent.TrackerPort)
		what := filepath.Join(t.dir, "s3", "b", prefix)
		web := t.Base() // the client appends the torrent's name and the file's
		if len(t.Files) == 1 {
			what = filepath.Join(what, t.Files[0])
			web += prefix + "/" + t.Files[0]
		}
		if source != "web" {
			web = ""
		}
		began := time.Now()
		if err := t.wait(ctx, storeHost, bittorrent.Make(what, t.Size(), announce, web, t.torrent())); err != nil {
			return err
		}
		t.made = time.Since(began)
		ln, err := t.lab.Listen(hubHost, fmt.Sprintf(":%d", bittorrent.TrackerPort))
		if err != nil {
			return err
		}
		server := &http.Server{Handler: &bittorrent.Tracker{}, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
		t.running.Go(func() { server.Serve(ln) }) // close ends it, and waits
		t.closers = append(t.closers, server.Close)
		return nil
	}
}

func (t *Trial) torrent() string { return filepath.Join(t.dir, "object.torrent") }

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
