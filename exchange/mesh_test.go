package exchange

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/piece"
)

// parcel is one message of the simulated mesh.
type parcel struct {
	from, to int
	kind     string // have, block, choke, unchoke, cancel, ask, gone
	piece    int
	lo, hi   int
}

// mesh runs States under a seeded scheduler: any link may deliver next, each
// in its own order; some nodes die; some blocks are lost with a node.
type mesh struct {
	t      *testing.T
	rng    *rand.Rand
	now    time.Time
	nodes  []*State
	living []bool
	links  map[[2]int][]parcel
	got    []map[int][]bool // by node and piece: which blocks are here
	sent   int              // blocks delivered
}

func newMesh(t *testing.T, seed uint64, nodes, pieces, slots int, barrier bool) *mesh {
	m := &mesh{t: t, rng: rand.New(rand.NewPCG(seed, 9)), now: t0, links: map[[2]int][]parcel{}}
	l := layout(pieces)
	for i := range nodes {
		s := New(Config{Self: i, Nodes: nodes, Layout: l, Barrier: barrier, Slots: slots, Rand: rand.New(rand.NewPCG(seed, uint64(i)))})
		for p := range pieces {
			s.Known(p)
		}
		m.nodes = append(m.nodes, s)
		m.living = append(m.living, true)
		m.got = append(m.got, map[int][]bool{})
	}
	for i, s := range m.nodes {
		for k := range m.nodes {
			if k != i {
				s.Up(k)
			}
		}
	}
	return m
}

func (m *mesh) send(p parcel) {
	if m.living[p.to] && m.living[p.from] {
		k := [2]int{p.from, p.to}
		m.links[k] = append(m.links[k], p)
	}
}

func (m *mesh) asks(from int, kind string, asks []Ask) {
	for _, a := range asks {
		m.send(parcel{from: from, to: a.Peer, kind: kind, piece: a.Piece, lo: a.Lo, hi: a.Hi})
	}
}

// own gives node i piece p, from the store.
func (m *mesh) own(i, p int) {
	m.asks(i, "cancel", m.nodes[i].Got(p))
	for k := range m.nodes {
		if k != i {
			m.send(parcel{from: i, to: k, kind: "have", piece: p})
		}
	}
}

func (m *mesh) tick() {
	m.now = m.now.Add(50 * time.Millisecond)
	for i, s := range m.nodes {
		if !m.living[i] {
			continue
		}
		for _, c := range s.Rechoke(m.now) {
			kind := "unchoke"
			if c.Choked {
				kind = "choke"
			}
			m.send(parcel{from: i, to: c.Peer, kind: kind})
		}
		ask, cancel := s.Asks(m.now)
		m.asks(i, "cancel", cancel)
		for _, a := range ask {
			if !s.peers[a.Peer].has.Has(a.Piece) || s.Have().Has(a.Piece) {
				m.t.Fatalf("node %d asks node %d for piece %d: it has %v, we have %v", i, a.Peer, a.Piece, s.peers[a.Peer].has.Has(a.Piece), s.Have().Has(a.Piece))
			}
		}
		m.asks(i, "ask", ask)
	}
}

func (m *mesh) deliver(k [2]int) {
	p := m.links[k][0]
	m.links[k] = m.links[k][1:]
	s := m.nodes[p.to]
	switch p.kind {
	case "have":
		s.Announced(p.from, piece.Range{Lo: p.piece, Hi: p.piece + 1})
	case "choke", "unchoke":
		s.Choked(p.from, p.kind == "choke")
	case "ask":
		if s.Serves(p.from, Request{p.piece, p.lo, p.hi}) {
			for b := p.lo; b < p.hi; b++ {
				m.send(parcel{from: p.to, to: p.from, kind: "block", piece: p.piece, lo: b})
			}
		}
	case "block":
		m.sent++
		if s.Have().Has(p.piece) {
			return
		}
		m.asks(p.to, "cancel", s.Block(p.from, p.piece, p.lo, m.now))
		g := m.got[p.to][p.piece]
		if g == nil {
			g = make([]bool, s.Layout.Blocks(p.piece))
			m.got[p.to][p.piece] = g
		}
		g[p.lo] = true
		if !slices.Contains(g, false) {
			m.own(p.to, p.piece)
		}
	case "gone":
		s.Gone(p.from)
	}
}

func (m *mesh) kill(i int) {
	m.living[i] = false
	for to := range m.nodes {
		k := [2]int{i, to}
		q := m.links[k]
		m.links[k] = append(slices.Clone(q[:m.rng.IntN(len(q)+1)]), parcel{from: i, to: to, kind: "gone"})
		delete(m.links, [2]int{to, i})
	}
}

// run lets messages arrive in bursts between ticks until all living nodes have
// everything that some living node has.
func (m *mesh) run(each func(tick int)) {
	for tick := range 4000 {
		each(tick)
		m.tick()
		for range m.rng.IntN(60) {
			var ready [][2]int
			for k, q := range m.links {
				if len(q) > 0 && m.living[k[1]] {
					ready = append(ready, k)
				}
			}
			if len(ready) == 0 {
				break
			}
			slices.SortFunc(ready, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
			m.deliver(ready[m.rng.IntN(len(ready))])
		}
		if m.complete() {
			return
		}
	}
	m.t.Fatal("the exchange does not end")
}

func (m *mesh) complete() bool {
	for p := range m.nodes[0].Layout.Count() {
		somebody, everybody := false, true
		for i, s := range m.nodes {
			if m.living[i] {
				somebody = somebody || s.Have().Has(p)
				everybody = everybody && s.Have().Has(p)
			}
		}
		if somebody && !everybody {
			return false
		}
	}
	return true
}

func TestEveryNodeGetsEveryPiece(t *testing.T) {
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 4))
		nodes, pieces, slots := 2+rng.IntN(8), 1+rng.IntN(40), 1+rng.IntN(5)
		m := newMesh(t, seed, nodes, pieces, slots, rng.IntN(2) == 0)
		owned := 0
		m.run(func(tick int) {
			for range 3 { // the store delivers while the exchange goes on
				if owned < pieces {
					m.own(owned*nodes/pieces, owned)
					owned++
				}
			}
		})
		for i, s := range m.nodes {
			if !s.Have().Full() {
				t.Fatalf("seed %d: node %d has %d of %d pieces", seed, i, s.Have().Count(), pieces)
			}
		}
		// Only the end-game fetches blocks twice: never more than a few pieces a node.
		if most := nodes * (pieces + 8) * 4; m.sent > most {
			t.Errorf("seed %d: %d blocks were sent to %d nodes for %d pieces of 4 blocks", seed, m.sent, nodes, pieces)
		}
	}
}

func TestSurvivorsShareWhatIsLeft(t *testing.T) {
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 5))
		nodes, pieces := 3+rng.IntN(6), 1+rng.IntN(40)
		m := newMesh(t, seed, nodes, pieces, 3, false)
		for p := range pieces {
			m.own(rng.IntN(nodes), p)
		}
		dies := map[int]int{rng.IntN(40): rng.IntN(nodes), rng.IntN(40): rng.IntN(nodes)}
		m.run(func(tick int) {
			if i, ok := dies[tick]; ok && m.living[i] {
				m.kill(i)
			}
		})
	}
}

func BenchmarkAsks(b *testing.B) {
	const nodes, pieces = 40, 25_600
	s := New(Config{Nodes: nodes, Layout: layout(pieces), Rand: rand.New(rand.NewPCG(1, 1))})
	for p := range pieces {
		s.Known(p)
	}
	for i := 1; i < nodes; i++ {
		s.Up(i)
		s.Choked(i, false)
		s.Announced(i, piece.Range{Lo: 0, Hi: pieces})
	}
	n := 0
	for b.Loop() {
		ask, _ := s.Asks(t0)
		for _, a := range ask {
			s.Got(a.Piece)
			s.Lost(a.Piece)
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/request")
}
