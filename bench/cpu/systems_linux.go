package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/rivals/bittorrent"
	"github.com/freshet/freshet/bench/trial"
	"github.com/freshet/freshet/unit"
)

// system is one way to bring the object to both nodes.
type system struct {
	name     string
	programs []string // without which it is left out
	versions [][]string
	tuning   string
	agents   []string                           // flags of Freshet's agents, which are up beforehand; nil: there are none
	prepare  func(context.Context, *pair) error // nil: nothing
	run      func(context.Context, *pair) error // returns when both nodes have it
}

var systems = []system{
	freshet(withTLS, "tls", "as it comes"),
	freshet(trusted, "trusted", "--security trusted: data in plain TCP"),
	curl(curlTLS, "https"),
	curl(curlPlain, "http"),
	{
		name: libtorrent, programs: []string{"python3", "mktorrent"}, versions: [][]string{bench.Debian("python3-libtorrent")},
		tuning:  fmt.Sprintf("%s, pieces of %v; its sessions are up when the clock begins, as Freshet's agents are", bittorrent.LibtorrentTuning, bittorrent.LibtorrentPiece),
		prepare: sessions,
		run: swarm(func(t *pair, node string) error {
			return os.WriteFile(t.begin(node), nil, 0o644)
		}),
	},
	{
		name: aria, programs: []string{"aria2c", "mktorrent"}, versions: [][]string{{"aria2c", "--version"}},
		tuning: bittorrent.Aria2Tuning, prepare: func(ctx context.Context, t *pair) error { return torrents(ctx, t, bittorrent.Piece(t.size)) },
		run: swarm(func(t *pair, node string) error {
			return t.Shell(node, "NODE="+node+" exec "+bittorrent.Aria2(t.torrent(node), filepath.Dir(t.path(node)), t.Root+"/hook", "", false))
		}),
	},
}

// version is what the programs say; empty for our own, of which the commit is known.
func (s system) version(ctx context.Context) string { return bench.Says(s.versions...)(ctx) }

func freshet(name, security, tuning string) system {
	return system{
		name: name, tuning: tuning, agents: []string{"--security", security},
		run: func(ctx context.Context, t *pair) error {
			r, err := t.Cluster.Broadcast(ctx, t.URLs[0], t.Cluster.Dest("{node}", object), "--share-access")
			switch {
			case err != nil:
				return err
			case r.State != "done" || r.Verified != "source":
				return fmt.Errorf("the job is %s, verified by %q: %s", r.State, r.Verified, r.Error)
			case r.StoreBytes != r.Bytes || r.Node(second).StoreBytes != 0:
				return fmt.Errorf("%d bytes left the store, %d of them to the second node; want %d and none", r.StoreBytes, r.Node(second).StoreBytes, r.Bytes)
			}
			return nil
		},
	}
}

const webPort = "8443"

// curl downloads the object to the first node, and from a web server there to the second one.
func curl(name, scheme string) system {
	addr := func(t *pair) string { return net.JoinHostPort(t.Lab.Addr(first).String(), webPort) }
	return system{
		name: name, programs: []string{"curl"}, versions: [][]string{{"curl", "--version"}},
		tuning: "one after the other: the first node downloads by http, and the second from a server of Go's net/http there by " + scheme + "; nothing is checked",
		prepare: func(ctx context.Context, t *pair) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			if err := t.Start(first, exe, "serve", scheme, addr(t), filepath.Dir(t.path(first))); err != nil {
				return err
			}
			if err := t.Await(ctx, func() bool {
				c, err := t.Lab.Dial(ctx, second, addr(t))
				if err != nil {
					return false
				}
				c.Close()
				return true
			}); err != nil {
				return fmt.Errorf("wait for the web server: %w", err)
			}
			return nil
		},
		run: func(ctx context.Context, t *pair) error {
			for _, n := range []struct{ node, from string }{{first, t.Web(object)}, {second, scheme + "://" + addr(t) + "/" + object}} {
				if err := t.Shell(n.node, fmt.Sprintf("curl -sSf --insecure -o %s %s; sync %[1]s; : >%[3]s", t.path(n.node), n.from, t.Mark(n.node))); err != nil {
					return err
				}
				if err := t.through(ctx, n.node); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (t *pair) torrent(node string) string { return filepath.Join(t.Root, node+".torrent") }

// begin is the file for which a node's client waits that is up beforehand.
func (t *pair) begin(node string) string { return filepath.Join(t.Root, node+".begin") }

// sessions makes torrents, and has a session of libtorrent up on each node.
func sessions(ctx context.Context, t *pair) error {
	if err := torrents(ctx, t, bittorrent.LibtorrentPiece); err != nil {
		return err
	}
	program := filepath.Join(t.Root, "client.py")
	if err := os.WriteFile(program, bittorrent.LibtorrentProgram, 0o644); err != nil {
		return err
	}
	for _, node := range []string{first, second} {
		client := bittorrent.Libtorrent(program, t.torrent(node), filepath.Dir(t.path(node)), t.Mark(node), t.Lab.Addr(node).String(), " tuned wait="+t.begin(node))
		if err := t.Shell(node, "exec "+client); err != nil {
			return err
		}
		if err := t.Await(ctx, func() bool {
			_, err := os.Stat(t.Mark(node) + ".up")
			return err == nil
		}); err != nil {
			return fmt.Errorf("wait for the session on the %s node: %w", node, err)
		}
	}
	return nil
}

// torrents makes a torrent for each node, the first one's with the store as web seed, and has a tracker up.
func torrents(ctx context.Context, t *pair, piece unit.Bytes) error {
	hook := fmt.Sprintf("#!/bin/sh\nsync %s\n: >%s\n", t.path("$NODE"), t.Mark("$NODE")) // what aria2 calls when it has all
	if err := os.WriteFile(filepath.Join(t.Root, "hook"), []byte(hook), 0o755); err != nil {
		return err
	}
	tracker, err := t.Serve(trial.Hub, bittorrent.TrackerPort, &t.tracker)
	if err != nil {
		return err
	}
	for node, web := range map[string]string{first: t.Web(object), second: ""} {
		if err := t.Run(ctx, trial.Store, bittorrent.Make(t.Stored(object), piece, tracker+"/announce", web, t.torrent(node))...); err != nil {
			return err
		}
	}
	return nil
}

// swarm has a client begin on each node, on the second one when the first one can be found.
func swarm(begin func(t *pair, node string) error) func(context.Context, *pair) error {
	return func(ctx context.Context, t *pair) error {
		if err := begin(t, first); err != nil {
			return err
		}
		if err := t.Await(ctx, func() bool { return t.tracker.Peers() > 0 }); err != nil {
			return fmt.Errorf("wait for the first client at the tracker: %w", err)
		}
		if err := begin(t, second); err != nil {
			return err
		}
		return errors.Join(t.through(ctx, first), t.through(ctx, second))
	}
}
