package scenario

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// The same where there are more nodes than know each other, and near the bound: no site waits for what another one
// sends to a third, and no importer for who does not serve it.
func TestLargeSitesAreEnteredOnce(t *testing.T) {
	for most, text := range map[float64]string{1.1: `
network: {generate: sites, sites: 2, hosts: 60, rate: 1Gbit, between: 200Mbit, between_delay: 5ms}
broadcast: {size: 256MiB, piece: 1MiB, store: {at: s1}}
`, 1.12: `
network: {generate: sites, sites: 3, hosts: 30, rate: 1Gbit, between: 200Mbit, between_delay: 5ms}
broadcast: {size: 256MiB, piece: 1MiB, store: {at: wan}}
`} {
		s := parse(t, text)
		r := run(t, s)
		t.Logf("%.2f s, %.3f times the bound (by %s)", r.Makespan, *r.Ratio, r.By)
		if *r.Ratio > most {
			t.Errorf("%.3f times the bound (by %s)", *r.Ratio, r.By)
		}
		for _, e := range r.Entered {
			if ratio := float64(e.Bytes) / float64(s.Layout.Size); ratio > 1.02 {
				t.Errorf("%.3f times the object entered %s", ratio, e.Site)
			}
		}
	}
}

// Where the store is inside one of several sites what leads out of that is the bound itself, nearly: two others do not both fetch a piece there.
func TestWhatOneSiteHasLeavesItOnce(t *testing.T) {
	for _, tt := range []struct {
		sites, hosts int
		more         string
		most         float64 // times the bound; twice, if everything leaves it twice
	}{
		{3, 4, "", 1.2},
		{3, 8, "", 1.25},
		{3, 30, "neighbours: 100,", 1.35},
		{4, 8, "", 1.4},
		{4, 30, "", 1.55},
		{10, 10, "", 1.9},
	} {
		s := parse(t, fmt.Sprintf(`
network: {generate: sites, sites: %d, hosts: %d, rate: 1Gbit, between: 200Mbit, between_delay: 5ms}
broadcast: {size: 256MiB, piece: 1MiB, %s store: {at: s1}}
`, tt.sites, tt.hosts, tt.more))
		r := run(t, s)
		t.Logf("%d sites of %d: %.2f s, %.3f times the bound (by %s)", tt.sites, tt.hosts, r.Makespan, *r.Ratio, r.By)
		if *r.Ratio > tt.most {
			t.Errorf("%d sites of %d: %.3f times the bound (by %s)", tt.sites, tt.hosts, *r.Ratio, r.By)
		}
		for _, e := range r.Entered {
			if ratio := float64(e.Bytes) / float64(s.Layout.Size); ratio > 1.02 {
				t.Errorf("%d sites of %d: %.3f times the object entered %s", tt.sites, tt.hosts, ratio, e.Site)
			}
		}
	}
}

// A site may be entered faster than the store's can be left.
func TestBoundCountsWhatLeavesTheStoresSite(t *testing.T) {
	s := parse(t, `
network: {generate: sites, sites: 3, hosts: 4, rate: 1Gbit, between: 100Mbit, between_back: 400Mbit, between_delay: 5ms}
broadcast: {size: 100MB, piece: 512KiB, store: {at: s1}}
`)
	r := run(t, s)
	t.Logf("%.2f s, bound %.2f s by %s", r.Makespan, *r.Bound, r.By)
	if r.By != "what leaves site site1" || *r.Bound < 7.99 || *r.Bound > 8.01 {
		t.Errorf("bound %.2f s by %s, want 8 s by what leaves site1", *r.Bound, r.By)
	}
}

// What can come into sites and leave them is what it is said to be, site by site: wherever the store is, where hosts are of no site or share
// a switch with those of another, and whoever counts.
func TestInboundBySite(t *testing.T) {
	// naive looks at all hosts and all links for each site.
	naive := func(w *world, counts func(int) bool) (all []steal.Inbound, source steal.Outbound) {
		siteOf := w.siteOfPlaces()
		crossing := func(site string) (enters, leaves unit.Bandwidth) {
			for _, l := range w.Network.Links {
				if a, b := siteOf[l.A], siteOf[l.B]; a != site && b == site {
					enters, leaves = enters+l.Rate, leaves+l.Back
				} else if a == site && b != site {
					enters, leaves = enters+l.Back, leaves+l.Rate
				}
			}
			return enters, leaves
		}
		at := siteOf[w.Store.At]
		if w.Store.At == "" {
			at = ""
		}
		var seen []string
		for _, h := range w.Network.Hosts {
			if h.Site == "" || slices.Contains(seen, h.Site) {
				continue
			}
			seen = append(seen, h.Site)
			enters, _ := crossing(h.Site)
			own, has := 0.0, false
			for i, o := range w.Network.Hosts {
				if o.Site == h.Site {
					own += limited(w.Store.PerClient[i])
					has = has || w.hostOf[i] >= 0 && counts(int(w.hostOf[i]))
				}
			}
			if w.Store.At == "" {
				enters += unit.Bandwidth(min(own, limited(w.Store.Total)))
			}
			if has && h.Site != at && !math.IsInf(float64(enters), 1) {
				all = append(all, steal.Inbound{Site: h.Site, Rate: enters})
			}
		}
		if slices.Contains(seen, at) && len(all) > 0 {
			source.Site = at
			_, source.Rate = crossing(at)
		}
		return all, source
	}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		text := "hosts: ["
		links := ""
		for i := range 9 {
			text += fmt.Sprintf("{name: h%d, site: %q},", i, []string{"", "a", "b", "c"}[rng.IntN(4)])
			links += fmt.Sprintf("{a: h%d, b: s%d, rate: %dMbit, rate_back: %dMbit},", i, rng.IntN(4), 8*rng.IntN(50), 8*rng.IntN(50))
		}
		text += "]\nswitches: [s0, s1, s2, s3, s4]\nlinks: [" + links
		for i := range 4 {
			text += fmt.Sprintf("{a: s%d, b: s4, rate: %dMbit, rate_back: %dMbit},", i, 8*rng.IntN(50), 8*rng.IntN(50))
		}
		scenario := fmt.Sprintf("network: {file: x}\nbroadcast: {size: 1MB, store: {total: %s, per_client: [%s]%s}}", []string{"0", "64Mbit"}[rng.IntN(2)],
			[]string{"0", "8Mbit", "8Mbit, 16Mbit"}[rng.IntN(3)], []string{"", ", at: h0", ", at: s0", ", at: s4"}[rng.IntN(4)])
		s, err := Parse([]byte(scenario), func(string) ([]byte, error) { return []byte(text + "]\n"), nil })
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, scenario, text)
		}
		w, err := s.world(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		some := func(node int) bool { return node%3 != int(seed%3) }
		got, source := w.inbound(s.Network.Links, some)
		want, wantSource := naive(w, some)
		if !slices.Equal(got, want) || source != wantSource {
			t.Errorf("seed %d: %v and %v, want %v and %v\n%s\n%s", seed, got, source, want, wantSource, scenario, text)
		}
	}
}

// An importer that hangs is not waited for until it is given up: what it has not asked for others do, and what only it has
// comes again.
func TestHungImporterIsReplaced(t *testing.T) {
	const text = `
network: {generate: sites, sites: 2, hosts: 4, rate: 1Gbit, between: 100Mbit, between_delay: 5ms}
broadcast: {size: 100MB, piece: 512KiB, store: {at: s1}}
events: [%s]
`
	usual := run(t, parse(t, fmt.Sprintf(text, "")))
	for _, at := range []string{"1s", "4s", "7s"} {
		s := parse(t, fmt.Sprintf(text, "{at: "+at+", node: h7, do: stop}"))
		r := run(t, s)
		others := 0.0 // the makespan of those that do not hang
		for _, n := range r.Nodes {
			if n.Done != nil {
				others = max(others, *n.Done)
			}
		}
		t.Logf("stopped at %s: %.2f s, and %.2f if nobody hangs", at, others, usual.Makespan)
		if others > usual.Makespan+10 {
			t.Errorf("one hangs from %s on: the others have it after %.2f s, and after %.2f if nobody does", at, others, usual.Makespan)
		}
		for _, e := range r.Entered {
			if ratio := float64(e.Bytes) / float64(s.Layout.Size); ratio > 1.05 { // its own share of what crossed is lost
				t.Errorf("one hangs from %s on: %.3f times the object entered %s", at, ratio, e.Site)
			}
		}
	}
}

// What comes into a site comes once, wherever the store is and whoever reads it, and nobody waits long for it; of a node that dies or hangs, what only it had comes again.
func TestSitesAreEnteredOnce(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		most       float64 // times the object
	}{
		{"two sites", `
network: {generate: sites, sites: 2, hosts: 4, rate: 1Gbit, between: 100Mbit, between_delay: 5ms}
broadcast: {size: 100MB, piece: 512KiB, store: {at: s1}}
`, 1.02},
		{"the store between them", `
network: {generate: sites, sites: 2, hosts: 4, rate: [1Gbit, 1Gbit, 300Mbit], between: 100Mbit, between_delay: 5ms}
broadcast: {size: 100MB, piece: 512KiB, store: {at: wan, per_connection: 40Mbit}}
`, 1.02},
		{"three sites, one node slow", `
network: {generate: sites, sites: 3, hosts: 3, rate: 1Gbit, between: 100Mbit, between_delay: 5ms}
broadcast: {size: 100MB, piece: 512KiB, store: {at: wan}}
events: [{at: 1s, node: h5, do: slow, rate: 20Mbit}]
`, 1.02},
		{"deaths", `
network: {generate: sites, sites: 2, hosts: 8, rate: 1Gbit, between: 100Mbit, between_delay: 5ms}
broadcast: {size: 100MB, piece: 512KiB, store: {at: s1}}
events: [{at: 7s, node: h10, do: die}, {at: 9s, node: h2, do: die}, {at: 9s, node: h12, do: stop}, {at: 50s, node: h12, do: resume}]
`, 1.10},
		{"one joins later", `
network: {generate: sites, sites: 2, hosts: 4, rate: 1Gbit, between: 100Mbit, between_delay: 5ms}
broadcast: {size: 100MB, piece: 512KiB, store: {at: s1}}
events: [{at: 20s, node: h6, do: join}]
`, 1.02},
	} {
		for _, algorithm := range steal.Algorithms {
			if algorithm == steal.Flat {
				continue
			}
			s := parse(t, strings.Replace(tt.text, "broadcast: {", fmt.Sprintf("broadcast: {algorithm: %s, ", algorithm), 1))
			r := run(t, s)
			t.Logf("%s, %s: %.2f s, %.3f times the bound (by %s)", tt.name, algorithm, r.Makespan, *r.Ratio, r.By)
			if len(r.Entered) < 2 {
				t.Errorf("%s: sites %v", tt.name, r.Entered)
			}
			for _, e := range r.Entered {
				if ratio := float64(e.Bytes) / float64(s.Layout.Size); ratio > tt.most {
					t.Errorf("%s, %s: %.3f times the object entered %s, at most %.2f times may", tt.name, algorithm, ratio, e.Site, tt.most)
				}
			}
		}
	}
}
