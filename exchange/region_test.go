package exchange

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
)

// This file runs nodes in sites, from a seed, and looks at what enters each site.

// region runs States and their sites' pools under a seeded scheduler. Time goes in ticks. What leads into a site
// carries so many blocks a tick, and so does what leads out of a node; control messages take one tick.
type region struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	now   time.Time
	sites []int
	nodes []*State
	pools []*steal.Imports
	slow  []int // by node: blocks it sends a tick
	thin  int   // blocks that enter a site a tick

	living, hung []bool
	gained       [][]time.Time // by node and rank: when it last announced anything
	mail         []letter
	queues       map[[2]int][]Request // by sender and receiver: single blocks
	got          []map[int][]bool
	read         []bool // by piece: it has been read from the store
	crossed      []int  // by site: blocks that entered it, from the store or other sites
	lost         []int  // by site: of these, what only nodes had that died
	thefts       int
	overtakes    int
}

type letter struct {
	from, to int
	kind     string
	piece    piece.Range
	req      Request
	hands    []steal.Hand
	claim    steal.Claim
}

func newRegion(t *testing.T, seed uint64, sites []int, pieces int) *region {
	m := &region{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 9)), now: t0, sites: sites, thin: 6,
		queues: map[[2]int][]Request{}, read: make([]bool, pieces),
	}
	n := len(sites)
	l := layout(pieces)
	for i := range n {
		s := New(Config{Self: i, Nodes: n, Layout: l, Sites: sites, AtOnce: int(seed%3) * 8, Rand: rand.New(rand.NewPCG(seed, uint64(i)))})
		for p := range pieces {
			s.Known(p)
		}
		var mates []int
		for k := range n {
			if sites[k] == sites[i] {
				mates = append(mates, k)
			}
		}
		m.nodes = append(m.nodes, s)
		m.pools = append(m.pools, steal.NewImports(i, n, mates, pieces))
		m.slow = append(m.slow, 12)
		m.living = append(m.living, true)
		m.gained = append(m.gained, slices.Repeat([]time.Time{t0}, n))
		m.got = append(m.got, map[int][]bool{})
		s.Importing(m.pools[i].Mine())
	}
	m.hung = make([]bool, n)
	m.crossed, m.lost = make([]int, slices.Max(sites)+1), make([]int, slices.Max(sites)+1)
	for i, s := range m.nodes {
		for k := range n {
			if k != i {
				s.Up(k)
			}
		}
	}
	return m
}

func (m *region) send(l letter) {
	if m.living[l.from] && m.living[l.to] {
		m.mail = append(m.mail, l)
	}
}

func (m *region) cancel(from int, asks []Ask) {
	for _, a := range asks {
		m.send(letter{from: from, to: a.Peer, kind: "cancel", req: a.Request})
	}
}

// claim tells all of the site.
func (m *region) claim(from int, claims []steal.Claim) {
	for _, c := range claims {
		for k := range m.nodes {
			if k != from && m.sites[k] == m.sites[from] {
				m.send(letter{from: from, to: k, kind: "took", claim: c})
			}
		}
	}
	m.nodes[from].Importing(m.pools[from].Mine())
}

func (m *region) own(i, p int) {
	m.cancel(i, m.nodes[i].Got(p))
	for k := range m.nodes {
		if k != i {
			m.send(letter{from: i, to: k, kind: "have", piece: piece.Range{Lo: p, Hi: p + 1}})
		}
	}
}

// store gives a node a piece that has not been read, or whose holders died.
func (m *region) store(i int) {
	for p, read := range m.read {
		if !read && m.living[i] && !m.hung[i] && m.nodes[i].Reserve(p) {
			m.read[p] = true
			m.crossed[m.sites[i]] += m.nodes[i].Layout.Blocks(p)
			m.own(i, p)
			return
		}
	}
}

func (m *region) kill(i int) {
	m.living[i] = false
	for p := range m.read {
		at, anywhere := false, false
		for k, s := range m.nodes {
			if m.living[k] && s.Have().Has(p) {
				anywhere = true
				at = at || m.sites[k] == m.sites[i]
			}
		}
		if !at {
			switch {
			case m.nodes[i].Have().Has(p):
				m.lost[m.sites[i]] += m.nodes[i].Layout.Blocks(p)
			default:
				for _, here := range m.got[i][p] {
					if here {
						m.lost[m.sites[i]]++
					}
				}
			}
		}
		m.read[p] = m.read[p] && anywhere
	}
	m.mail = slices.DeleteFunc(m.mail, func(l letter) bool { return l.to == i })
	for k := range m.queues {
		if k[0] == i || k[1] == i {
			delete(m.queues, k)
		}
	}
}

// gone is when the others notice, which they do one after the other.
func (m *region) gone(i int) {
	for k := range m.nodes {
		if k != i {
			m.mail = append(m.mail, letter{from: i, to: k, kind: "gone"})
		}
	}
}

func (m *region) deliver(l letter) {
	if !m.living[l.to] {
		return
	}
	s, pool := m.nodes[l.to], m.pools[l.to]
	fail := func(err error) {
		if err != nil {
			m.t.Fatalf("seed %d: %v", m.seed, err)
		}
	}
	switch l.kind {
	case "have":
		s.Announced(l.from, l.piece)
		m.gained[l.to][l.from] = m.now
	case "choke", "unchoke":
		s.Choked(l.from, l.kind == "choke")
	case "ask":
		if s.Serves(l.from, l.req) {
			k := [2]int{l.to, l.from}
			for b := l.req.Lo; b < l.req.Hi; b++ {
				m.queues[k] = append(m.queues[k], Request{l.req.Piece, b, b + 1})
			}
		}
	case "cancel":
		k := [2]int{l.to, l.from}
		m.queues[k] = slices.DeleteFunc(m.queues[k], func(r Request) bool {
			return r.Piece == l.req.Piece && l.req.Lo <= r.Lo && r.Lo < l.req.Hi
		})
	case "give":
		m.send(letter{from: l.to, to: l.from, kind: "imports", hands: pool.Give(l.from, s.Importable)})
		s.Importing(pool.Mine())
	case "imports":
		tell, err := pool.Receive(l.from, l.hands, m.now, s.Importable)
		fail(err)
		if len(l.hands) > 0 {
			m.thefts++
		}
		m.claim(l.to, tell)
	case "took":
		tell, err := pool.Took(l.claim)
		fail(err)
		m.gained[l.to][l.claim.Node] = m.now
		m.claim(l.to, tell)
	case "gone":
		s.Gone(l.from)
		m.claim(l.to, pool.Dead(l.from))
	}
}

// carry moves blocks: of those that wait any may be next, as far as links allow.
func (m *region) carry() {
	up, in := slices.Clone(m.slow), slices.Repeat([]int{m.thin}, len(m.crossed))
	for {
		var ready [][2]int
		for k, q := range m.queues {
			if len(q) > 0 && up[k[0]] > 0 && !m.hung[k[0]] && (m.sites[k[0]] == m.sites[k[1]] || in[m.sites[k[1]]] > 0) {
				ready = append(ready, k)
			}
		}
		if len(ready) == 0 {
			return
		}
		slices.SortFunc(ready, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
		k := ready[m.rng.IntN(len(ready))]
		r := m.queues[k][0]
		m.queues[k] = m.queues[k][1:]
		up[k[0]]--
		if at := m.sites[k[1]]; m.sites[k[0]] != at {
			in[at]--
			m.crossed[at]++
		}
		m.block(k[0], k[1], r)
	}
}

func (m *region) block(from, to int, r Request) {
	s := m.nodes[to]
	g := m.got[to][r.Piece]
	if g == nil {
		g = make([]bool, s.Layout.Blocks(r.Piece))
		m.got[to][r.Piece] = g
	}
	if s.Have().Has(r.Piece) || g[r.Lo] {
		s.Discarded(from, r.Piece, r.Lo, m.now)
		return
	}
	m.cancel(to, s.Block(from, r.Piece, r.Lo, m.now))
	g[r.Lo] = true
	if !slices.Contains(g, false) {
		m.own(to, r.Piece)
	}
}

func (m *region) step(i int) {
	s, pool := m.nodes[i], m.pools[i]
	for _, c := range s.Rechoke(m.now) {
		kind := "unchoke"
		if c.Choked {
			kind = "choke"
			delete(m.queues, [2]int{i, c.Peer})
		}
		m.send(letter{from: i, to: c.Peer, kind: kind})
	}
	ask, cancel := s.Asks(m.now)
	m.cancel(i, cancel)
	for _, a := range ask {
		if far := m.sites[a.Peer] != m.sites[i]; far && (!pool.Mine().Has(a.Piece) || s.site.near[a.Piece] > 0) {
			m.t.Fatalf("seed %d: node %d asks another site for piece %d: it is its importer: %v, its site has it: %v", m.seed, i, a.Piece, pool.Mine().Has(a.Piece), s.site.near[a.Piece] > 0)
		} else if far {
			for k, o := range m.nodes { // only one that hangs can have it
				if m.sites[k] == m.sites[i] && m.hung[k] && o.Have().Has(a.Piece) {
					m.lost[m.sites[i]] += a.Hi - a.Lo
				}
			}
		}
		m.send(letter{from: i, to: a.Peer, kind: "ask", req: a.Request})
	}
	if !s.Hungry() {
		return
	}
	if victim, ok := pool.Ask(m.now, s.Importable); ok {
		m.send(letter{from: i, to: victim, kind: "give"})
	} else if victim, tell := pool.Overtake(m.now, s.ImportTook(), s.Importable, func(rank int) time.Duration { return m.now.Sub(m.gained[i][rank]) }); tell != nil {
		m.overtakes++
		m.wasted(victim, tell)
		m.claim(i, tell)
	}
}

// wasted counts what has crossed, or is about to, of pieces that one who hangs was to import and others do.
func (m *region) wasted(victim int, tell []steal.Claim) {
	for _, c := range tell {
		for _, h := range c.Hands {
			for p := h.Lo; m.hung[victim] && p < h.Hi; p++ {
				for _, here := range m.got[victim][p] {
					if here && !m.nodes[victim].Have().Has(p) {
						m.lost[m.sites[victim]]++
					}
				}
				for k, q := range m.queues {
					for _, r := range q {
						if k[1] == victim && r.Piece == p && m.sites[k[0]] != m.sites[victim] {
							m.lost[m.sites[victim]]++
						}
					}
				}
			}
		}
	}
}

func (m *region) run(each func(tick int)) (ticks int) {
	for tick := range 20_000 {
		m.now = m.now.Add(50 * time.Millisecond)
		each(tick)
		mail := m.mail
		m.mail = nil
		for len(mail) > 0 { // of each link in order, links in any
			l := mail[m.rng.IntN(len(mail))]
			first := slices.IndexFunc(mail, func(o letter) bool { return o.from == l.from && o.to == l.to })
			l = mail[first]
			mail = slices.Delete(mail, first, first+1)
			if m.hung[l.to] {
				m.mail = append(m.mail, l)
			} else {
				m.deliver(l)
			}
		}
		m.carry()
		for i := range m.nodes {
			if m.living[i] && !m.hung[i] {
				m.step(i)
			}
		}
		if m.complete() {
			return tick
		}
	}
	for i, s := range m.nodes {
		m.t.Logf("node %d of site %d: living %v, hung %v, %d of %d pieces", i, m.sites[i], m.living[i], m.hung[i], s.Have().Count(), s.Have().Len())
	}
	m.t.Fatalf("seed %d: the exchange does not end", m.seed)
	return 0
}

func (m *region) complete() bool {
	for i, s := range m.nodes {
		if m.living[i] && !s.Have().Full() {
			return false
		}
	}
	return true
}

// enters demands that no site was entered by more than the object and a 50th, but for what was lost.
func (m *region) enters() {
	m.t.Helper()
	all := 0
	for p := range m.read {
		all += m.nodes[0].Layout.Blocks(p)
	}
	for k, n := range m.crossed {
		if most := all + all/50 + m.lost[k]; n > most {
			m.t.Errorf("seed %d: %d blocks entered site %d, of an object of %d, and %d were lost: at most %d may have (%d thefts, %d overtakes)",
				m.seed, n, k, all, m.lost[k], most, m.thefts, m.overtakes)
		}
	}
}

// places are nodes in sites, each with one at least.
func places(rng *rand.Rand, most int) (sites []int) {
	n := 1 + rng.IntN(3)
	for k := range n {
		for range 1 + rng.IntN(most) {
			sites = append(sites, k)
		}
	}
	rng.Shuffle(len(sites), func(i, j int) { sites[i], sites[j] = sites[j], sites[i] })
	return sites
}

// Wherever what is read from the store enters, each site is entered once by each piece, by whatever way.
func TestEachSiteIsEnteredOnce(t *testing.T) {
	thefts := 0
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 4))
		sites := places(rng, 5)
		m := newRegion(t, seed, sites, 100+rng.IntN(60))
		readers := len(sites)
		if rng.IntN(2) == 0 { // the store is at one place
			readers = 1
		}
		for i := range m.slow {
			if rng.IntN(4) == 0 {
				m.slow[i] = 2
			}
		}
		m.run(func(tick int) {
			for range 2 {
				m.store(rng.IntN(readers))
			}
		})
		m.enters()
		thefts += m.thefts
	}
	if thefts == 0 {
		t.Error("nothing was stolen: the test is none")
	}
}

// Importers die, hang and wake up: what only they had enters again, and no more.
func TestImportersDieAndHang(t *testing.T) {
	overtakes, lost := 0, 0
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 5))
		sites := places(rng, 5)
		if len(sites) < 3 {
			continue
		}
		m := newRegion(t, seed, sites, 100+rng.IntN(60))
		for i := range m.slow {
			if rng.IntN(4) == 0 {
				m.slow[i] = 2
			}
		}
		victim, other := 1+rng.IntN(len(sites)-1), 0
		for other = 1 + rng.IntN(len(sites)-1); other == victim && len(sites) > 2; {
			other = 1 + rng.IntN(len(sites)-1)
		}
		at, late := 10+rng.IntN(200), 10+rng.IntN(200)
		m.run(func(tick int) {
			switch tick {
			case at:
				m.kill(victim)
			case at + 60:
				m.gone(victim)
			case late:
				m.hung[other] = true
			case late + 400: // 20 s
				m.hung[other] = false
			}
			for range 2 {
				m.store(rng.IntN(len(sites)))
			}
		})
		m.enters()
		overtakes += m.overtakes
		for _, n := range m.lost {
			lost += n
		}
	}
	if overtakes == 0 || lost == 0 {
		t.Errorf("%d overtakes, %d blocks lost: the test is none", overtakes, lost)
	}
}
