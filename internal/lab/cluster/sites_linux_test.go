package cluster_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/unit"
)

// Two sites of three nodes, each with a thin link to what lies between, where the control plane is:
//
//	a1 ─┐                      ┌─ b1
//	a2 ─ east ─ thin ─ wan ─ thin ─ west ─ b2
//	a3 ─┘        hub, store?    └─ b3
type twoSites struct {
	*cluster.Cluster
	lab *lab.Lab
}

func newTwoSites(t *testing.T, ctx context.Context, storeAt string) twoSites {
	t.Helper()
	const thin = 40 * unit.Mbit
	spec := lab.Spec{Hosts: []string{"hub", "store"}, Switches: []string{"east", "west", "wan"}, Links: []lab.Link{
		{A: "east", B: "wan", Rate: thin}, {A: "west", B: "wan", Rate: thin},
		{A: "hub", B: "wan", Rate: 200 * unit.Mbit}, {A: "store", B: storeAt, Rate: 200 * unit.Mbit},
	}}
	nodes, args := []string{"a1", "a2", "a3", "b1", "b2", "b3"}, map[string][]string{}
	for _, n := range nodes {
		site := "east"
		if n[0] == 'b' {
			site = "west"
		}
		spec.Hosts = append(spec.Hosts, n)
		spec.Links = append(spec.Links, lab.Link{A: n, B: site, Rate: 200 * unit.Mbit})
		args[n] = []string{"--site", site}
	}
	l := lab.New(t, spec)
	c, err := cluster.Start(ctx, cluster.Config{Lab: l, Hub: "hub", Store: "store", Nodes: nodes, Dir: memory(t), AgentArgsOf: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return twoSites{c, l}
}

// entered is how many bytes have entered a site since the lab was built, in frames.
func (s twoSites) entered(t *testing.T, site string) unit.Bytes {
	t.Helper()
	n, err := s.count(site)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s twoSites) count(site string) (n unit.Bytes, err error) {
	all, err := s.lab.Traffic()
	for _, k := range all {
		if k.From == "wan" && k.To == site {
			n += k.Bytes
		}
	}
	return n, err
}

// frames is the most that the payload of an object may come to on a link: a 50th more is what hedges may take. In frames of
// 1,514 bytes TCP carries 1,448, and TLS 16,384 in 16,406; what goes the other way is acknowledged, a frame of 66 bytes
// for two at least; 256 KiB are for what is said: to and from the control plane, and between nodes.
func frames(size unit.Bytes) unit.Bytes {
	in := float64(size) * 1.02 * 1514 / 1448 * 16406 / 16384
	acks := float64(size) / 1448 / 2 * 66
	return unit.Bytes(in+acks) + 256*unit.KiB
}

// Counted on the link, an object enters each site once, wherever the store is; and all files are right.
func TestObjectEntersEachSiteOnce(t *testing.T) {
	const size = 32 * unit.MiB
	for _, storeAt := range []string{"east", "wan"} {
		t.Run("the store at "+storeAt, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			s := newTwoSites(t, ctx, storeAt)
			url, err := s.Put("o", size, 1)
			if err != nil {
				t.Fatal(err)
			}
			before := map[string]unit.Bytes{"east": s.entered(t, "east"), "west": s.entered(t, "west")}
			r, err := s.Broadcast(ctx, url, s.Dest("{node}", "o"))
			if err != nil {
				t.Fatal(err)
			}
			if r.Exit != 0 || r.State != "done" || r.Verified != "source" {
				t.Fatalf("got %+v\n%s", r, s.Logs())
			}
			s.right(t, size, 1, "a1", "a2", "a3", "b1", "b2", "b3")
			if most := int64(size * 102 / 100); r.StoreBytes > most {
				t.Errorf("%d bytes left the store, at most %d may", r.StoreBytes, most)
			}
			for _, site := range []string{"east", "west"} {
				n := s.entered(t, site) - before[site]
				t.Logf("%v entered %s in frames, %.3f times the object; %.1f s", n, site, float64(n)/float64(size), r.MakespanS)
				if n > frames(size) {
					t.Errorf("%v entered %s, of an object of %v: at most %v may, headers included", n, site, size, frames(size))
				}
			}
		})
	}
}

// An importer is killed when a third has crossed. The others get all; what crosses once more is what it alone had.
func TestImporterIsKilled(t *testing.T) {
	const size = 32 * unit.MiB
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s := newTwoSites(t, ctx, "east")
	url, err := s.Put("o", size, 2)
	if err != nil {
		t.Fatal(err)
	}
	before := s.entered(t, "west")
	killed := make(chan error, 1)
	go func() { // ends when the process is killed, or with ctx; waited for below
		n, err := s.count("west")
		for err == nil && ctx.Err() == nil && n-before < size/3 {
			time.Sleep(20 * time.Millisecond)
			n, err = s.count("west")
		}
		killed <- errors.Join(err, s.Node("b2").Kill())
	}()
	r, err := s.Broadcast(ctx, url, s.Dest("{node}", "o"))
	if err != nil {
		cancel()
	}
	if err := errors.Join(err, <-killed); err != nil {
		t.Fatal(err)
	}
	for _, n := range r.Nodes {
		if done := n.DoneS != nil; done != (n.Name != "b2") {
			t.Errorf("%s: done %v, %s", n.Name, done, n.Error)
		}
	}
	s.right(t, size, 2, "a1", "a2", "a3", "b1", "b3")
	n := s.entered(t, "west") - before
	t.Logf("%v entered in frames, %.3f times the object; %.1f s", n, float64(n)/float64(size), r.MakespanS)
	if most := frames(size) + size/16; n > most {
		t.Errorf("%v entered, of an object of %v: at most %v may, headers and what was lost included", n, size, most)
	}
}

// right demands that these nodes have the object that Put made of this size and seed.
func (s twoSites) right(t *testing.T, size unit.Bytes, seed uint64, nodes ...string) {
	t.Helper()
	want := digest(t, cluster.Bytes(size, seed))
	for _, n := range nodes {
		f, err := os.Open(s.Dest(n, "o"))
		if err != nil {
			t.Fatal(err)
		}
		if got := digest(t, f); got != want {
			t.Errorf("%s: digest %s, want %s", n, got, want)
		}
		f.Close()
	}
}
