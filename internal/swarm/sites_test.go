package swarm

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// inSites puts the nodes of a swarm into sites, "" for none. Its readers alone may read the store.
func (b *bench) inSites(sites []string, readers ...int) {
	for i := range b.configs {
		for rank, site := range sites {
			b.configs[i].Members[rank].Site = site
			b.configs[i].Members[rank].NoAccess = !slices.Contains(readers, rank)
		}
	}
}

// entered is how many pieces came into a site, from the store or from others, and how many of them more than once.
// What the nodes without got is not counted.
func (b *bench) entered(sites []string, site string, without ...int) (pieces, again int) {
	siteOf := map[string]string{}
	for i, s := range sites {
		siteOf[nodeName(i)] = s
	}
	times := map[int]int{}
	for _, e := range b.events() {
		if e.Kind == "piece" && siteOf[e.Node] == site && (e.From == StoreName || siteOf[e.From] != site) &&
			!slices.ContainsFunc(without, func(i int) bool { return nodeName(i) == e.Node }) {
			if times[*e.Piece]++; times[*e.Piece] > 1 {
				again++
			}
		}
	}
	return len(times), again
}

// crossed is how many bytes nodes of other sites wrote to nodes of a site, headers and messages included.
func (b *bench) crossed(sites []string, site string) (n int) {
	b.net.mu.Lock()
	defer b.net.mu.Unlock()
	for i, from := range sites {
		for k, to := range sites {
			if from != site && to == site {
				n += b.net.carried[[2]string{nodeName(i), nodeName(k)}]
			}
		}
	}
	return n
}

// told is how many bytes the nodes of a site say that they got from others.
func (b *bench) told(sites []string, site string) (n int) {
	for i, p := range b.results {
		if sites[i] == site {
			n += int(p.CrossedBytes)
		}
	}
	return n
}

// Each piece enters each site once, wherever it is read, with every algorithm that exchanges.
func TestPiecesEnterSitesOnce(t *testing.T) {
	sites := []string{"east", "west", "east", "west", "west", "east"}
	const size = 16 * unit.MiB
	for _, algorithm := range []string{steal.Stream, steal.Steal, steal.NonSteal} {
		for where, readers := range map[string][]int{"in both": seq(6), "in one": {0, 2, 5}, "at one node": {3}} {
			swarmOf(t, 6, size, algorithm, func(b *bench) {
				b.inSites(sites, readers...)
				for i := range b.configs {
					b.configs[i].Layout.Piece = 128 * unit.KiB
					b.configs[i].Store = slow{b.store, 2 << 20}
				}
				b.run()
				b.complete(BySource, seq(6)...)
				if got := b.storeBytes(); got > size*102/100 {
					t.Errorf("%s, the store %s: %v left it", algorithm, where, got)
				}
				for _, site := range []string{"east", "west"} {
					pieces, again := b.entered(sites, site)
					if most := b.configs[0].Layout.Count() / 50; pieces != b.configs[0].Layout.Count() || again > most {
						t.Errorf("%s, the store %s: %d pieces entered %s, %d of them again; at most %d may have", algorithm, where, pieces, site, again, most)
					}
					n := b.crossed(sites, site)
					if n > int(size)*102/100 {
						t.Errorf("%s, the store %s: %d bytes crossed into %s, of an object of %d", algorithm, where, n, site, size)
					}
					if told := b.told(sites, site); told > n || told < n-int(size)*4/100 {
						t.Errorf("%s, the store %s: the nodes of %s say that %d bytes came from elsewhere, and %d did, headers and messages included", algorithm, where, site, told, n)
					}
				}
			})
		}
	}
}

// Without the labels the same nodes cross more: what the test above looks at does not come by itself.
func TestPiecesCrossWhereThereAreNoSites(t *testing.T) {
	sites := []string{"east", "west", "east", "west", "west", "east"}
	swarmOf(t, 6, 32*unit.MiB, steal.Stream, func(b *bench) {
		b.inSites(make([]string, 6), 0, 2, 5)
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 4 << 20}
		}
		b.run()
		b.complete(BySource, seq(6)...)
		if pieces, again := b.entered(sites, "west"); again < pieces/10 {
			t.Errorf("%d of %d pieces came into a site again", again, pieces)
		}
	})
}

// An importer that dies, or hangs until it is given up, is replaced. What others got from it enters no second time.
func TestImporterDies(t *testing.T) {
	sites := []string{"east", "east", "west", "west", "west"}
	for how, end := range map[string]func(b *bench){
		"dies":  func(b *bench) { b.net.kill(nodeName(3)); b.cancel[3](nil) },
		"hangs": func(b *bench) { b.net.mute(nodeName(3)) },
	} {
		swarmOf(t, 5, 32*unit.MiB, steal.Stream, func(b *bench) {
			b.inSites(sites, 0, 1)
			for i := range b.configs {
				b.configs[i].Store = slow{b.store, 2 << 20}
			}
			b.after(3*time.Second, func() { end(b) })
			b.after(2*time.Minute, func() { b.cancel[3](nil) })
			b.run()
			b.complete(BySource, 0, 1, 2, 4)
			pieces, again := b.entered(sites, "west", 3)
			if most := b.configs[0].Layout.Count() / 50; again > most || pieces < b.configs[0].Layout.Count()/2 {
				t.Errorf("%s: %d pieces entered the others of its site, %d of them again; at most %d may have", how, pieces, again, most)
			}
		})
	}
}

// Who is of no site asks everybody, and so does everybody where all are of one.
func TestNodesOfNoSite(t *testing.T) {
	for _, sites := range [][]string{{"east", "", "west", ""}, {"east", "east", "east", "east"}, {"", "", "", ""}} {
		swarmOf(t, 4, 8*unit.MiB, steal.Stream, func(b *bench) {
			b.inSites(sites, seq(4)...)
			b.run()
			b.complete(BySource, seq(4)...)
			if n := newNode(b.configs[0]); (n.imports == nil) != (sites[1] == sites[0]) {
				t.Errorf("sites %q: the first node imports: %v", sites, n.imports != nil)
			}
			if n := newNode(b.configs[1]); (n.imports == nil) != (sites[1] == "" || sites[1] == sites[0]) {
				t.Errorf("sites %q: the second node imports: %v", sites, n.imports != nil)
			}
			for i, p := range b.results {
				if p.CrossedBytes > 0 && (sites[i] == "" || sites[1] == sites[0]) {
					t.Errorf("sites %q: %d bytes crossed into that of node %d", sites, p.CrossedBytes, i)
				}
			}
		})
	}
}

// What a node says about another site's pool, or says wrong, ends its connection.
func TestImportsAreCheckedOnTheWire(t *testing.T) {
	swarmOf(t, 4, 8*unit.MiB, steal.Stream, func(b *bench) {
		b.inSites([]string{"east", "west", "east", "west"}, seq(4)...)
		n := newNode(b.configs[0])
		for _, tt := range []struct {
			from    int
			kind    byte
			payload []byte
			want    string // empty: it is fine
		}{
			{1, kindGiveImports, nil, "another site"},
			{1, kindTookImports, appendTook(nil, steal.Claim{Node: 1, Hands: []steal.Hand{{Lo: 0, Hi: 1, Term: 1}}}), "another site"},
			{2, kindTookImports, appendTook(nil, steal.Claim{Node: 3, Hands: []steal.Hand{{Lo: 0, Hi: 1, Term: 1}}}), "another site"},
			{2, kindTookImports, appendTook(nil, steal.Claim{Node: 2, Hands: []steal.Hand{{Lo: 0, Hi: 1 << 20, Term: 1}}}), "works"},
			{2, kindImports, appendWorks(nil, []steal.Hand{{Lo: 5, Hi: 5, Term: 1}}), "works"},
			{2, kindImports, []byte{1, 2, 3}, "short"},
			{2, kindGiveImports, []byte{1}, "bytes"},
			{2, kindGiveImports, nil, ""},
			{2, kindTookImports, appendTook(nil, steal.Claim{Node: 2, Hands: []steal.Hand{{Lo: 0, Hi: 1, Term: 1}}}), ""},
		} {
			err := n.message(evMessage{link: &link{rank: tt.from}, kind: tt.kind, payload: tt.payload})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("kind %d with %x from node %d: %v, want %q", tt.kind, tt.payload, tt.from, err, tt.want)
			}
		}
		if got := n.imports.Importer(0); got != 2 {
			t.Errorf("piece 0 is imported by node %d", got)
		}
	})
}

// A site of many nodes imports few pieces at a time; one of few nodes does where one of three sites has what the others want.
func TestSitesOfManyNodesImportFewPieces(t *testing.T) {
	swarmOf(t, 2, 4*unit.MiB, steal.Stream, func(b *bench) {
		for _, tt := range []struct {
			sites, nodes int // in each
			most         int
			few          bool
		}{{1, 20, 0, true}, {2, 10, 0, true}, {2, 20, 16, false}, {3, 4, 16, true}} {
			c := b.configs[0]
			c.Layout.Piece = 16 * unit.KiB // 256 pieces
			c.Members = nil
			for k := range tt.sites {
				for range tt.nodes {
					c.Members = append(c.Members, Member{Name: nodeName(len(c.Members)), Site: string(rune('a' + k))})
				}
			}
			if n := newNode(c); n.ex.AtOnce != tt.most || n.ex.Few != tt.few {
				t.Errorf("%d sites of %d: %d pieces at a time, few %v; want %d, %v", tt.sites, tt.nodes, n.ex.AtOnce, n.ex.Few, tt.most, tt.few)
			}
		}
	})
}

// What crosses into a site is stolen by who can take more: else a node would wait for what a slow one imports until that has all itself.
func TestCrossingIsStolenFromTheSlow(t *testing.T) {
	measures(t)
	const size, link = 8 * unit.MiB, unit.Bandwidth(unit.MiB)
	swarmOf(t, 4, size, steal.Stream, func(b *bench) {
		b.inSites([]string{"east", "east", "west", "west"}, 0, 1)
		for i := range b.configs {
			b.configs[i].Layout.Piece = 64 * unit.KiB
		}
		b.onStar(all(link), func(i int) unit.Bandwidth {
			if i == 3 {
				return link / 8
			}
			return link
		}, all(link))
		b.run()
		b.complete(BySource, seq(4)...)
		if b.took[2] > b.took[3]/2 {
			t.Errorf("one whose link is wide takes %v, and one of its site whose link is thin %v", b.took[2], b.took[3])
		}
	})
}

// What was asked of another site, and came from inside meanwhile, may be read from the store: then the other site's blocks, late, are not written over it.
func TestWhatIsReadNobodyElseWrites(t *testing.T) {
	swarmOf(t, 3, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log = slog.New(slog.DiscardHandler)
		for i := range c.Members {
			c.Members[i].Site = []string{"here", "here", "there"}[i]
		}
		n := newNode(c)
		n.enter(2, digest{0, exchange.Entry{Sum: 1, Reader: 2}})
		for rank := 1; rank < 3; rank++ {
			n.ex.Up(rank)
		}
		n.ex.Choked(2, false)
		n.announced(2, piece.Range{Hi: 1})
		asks, _ := n.ex.Asks(n.now)
		if len(asks) != 1 || asks[0].Peer != 2 || asks[0].Piece != 0 {
			t.Fatalf("asks %v", asks)
		}
		n.asm.expect(2, 0)
		n.announced(1, piece.Range{Hi: 1})
		if _, cancel := n.ex.Asks(n.now); len(cancel) != 1 {
			t.Fatalf("cancels %v", cancel)
		}
		o, ok := n.reserve(piece.Range{Hi: 1})
		if !ok || !o.take[0] {
			t.Fatalf("reads %v, %v", o, ok)
		}
		if n.asm.claim(2, 0, 0) {
			t.Error("another site's block would be written over what is read")
		}
	})
}
