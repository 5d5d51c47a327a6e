package exchange

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

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

// alone is a State of site 0 that imports all of ten pieces; node 1 is of its site, node 2 of another.
func alone(atOnce int) *State {
	s := New(Config{Nodes: 3, Layout: layout(10), Sites: []int{0, 0, 1}, AtOnce: atOnce, Rand: rand.New(rand.NewPCG(1, 2))})
	all := piece.NewSet(10)
	for p := range 10 {
		s.Known(p)
		all.Add(p)
	}
	s.Importing(all)
	for _, rank := range []int{1, 2} {
		s.Up(rank)
		s.Choked(rank, false)
	}
	return s
}

// A site that imports two pieces at a time asks for no more than two, whoever imports them.
func TestFewAreImportedAtOnce(t *testing.T) {
	s := alone(2)
	s.Announced(2, piece.Range{Lo: 0, Hi: 10})
	now := t0
	for round := 0; !s.Have().Full(); round++ {
		if round == 20 {
			t.Fatalf("%d of 10 pieces after %d rounds", s.Have().Count(), round)
		}
		now = now.Add(queueEvery)
		ask, _ := s.Asks(now)
		if len(ask) == 0 || len(ask) > 2 {
			t.Errorf("round %d: asks for %v", round, ask)
		}
		begin := 0
		for p := range 10 {
			if s.site.begins(p) {
				begin++
			}
		}
		if begin > 2 {
			t.Errorf("round %d: %d pieces may be begun", round, begin)
		}
		for _, a := range ask {
			for b := range s.Layout.Blocks(a.Piece) {
				s.Block(2, a.Piece, b, now)
			}
			s.Got(a.Piece)
		}
	}
}

// A site has what its living nodes have, whatever they get, lose and are said to have.
func TestWhatSitesHave(t *testing.T) {
	sites := []int{0, 0, 0, 1, 1, 2, -1}
	const pieces = 8
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := New(Config{Nodes: len(sites), Layout: layout(pieces), Sites: sites, Rand: rng})
		for rank := 1; rank < len(sites); rank++ {
			s.Up(rank)
		}
		for range 200 {
			rank, i := 1+rng.IntN(len(sites)-1), rng.IntN(pieces)
			switch rng.IntN(20) {
			case 0:
				s.Gone(rank)
			case 1, 2, 3:
				s.Known(i)
			case 4, 5:
				s.Got(i)
			case 6, 7:
				s.Lost(i)
			case 8, 9, 10, 11:
				s.Withdrawn(rank, i)
			default:
				s.Announced(rank, piece.Range{Lo: i, Hi: i + 1})
			}
			for k := range s.site.has {
				for p := range pieces {
					want := k == sites[0] && s.have.Has(p)
					for rank := 1; rank < len(sites); rank++ {
						want = want || sites[rank] == k && s.peers[rank].has.Has(p) && s.known.Has(p)
					}
					if got := s.site.has[k].Has(p); got != want {
						t.Fatalf("seed %d: site %d has piece %d: %v, want %v", seed, k, p, got, want)
					}
				}
			}
		}
	}
}

// That a piece is found to be wrong, which all have, is not worked out for all pieces of all nodes, once for each node.
func TestManyAreWithdrawn(t *testing.T) {
	const nodes, pieces, wrong = 60, 10_000, 2000
	sites := make([]int, nodes)
	for rank := range sites {
		sites[rank] = rank % 2
	}
	s := New(Config{Nodes: nodes, Layout: layout(pieces), Sites: sites, Rand: rand.New(rand.NewPCG(1, 2))})
	for i := range pieces {
		s.Known(i)
	}
	for rank := 1; rank < nodes; rank++ {
		s.Up(rank)
		s.Announced(rank, piece.Range{Hi: pieces})
	}
	began := time.Now()
	for i := range wrong {
		for rank := 1; rank < nodes; rank++ {
			s.Withdrawn(rank, i)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it takes %v", took)
	}
	if s.site.has[1].Count() != pieces-wrong {
		t.Errorf("the other site has %d pieces, want %d", s.site.has[1].Count(), pieces-wrong)
	}
}

// What is worked out for all pieces of an object is, of one with very many, less often.
func TestManyPiecesAreQueuedSeldom(t *testing.T) {
	for _, tt := range []struct {
		pieces int
		every  time.Duration
	}{{10, queueEvery}, {1 << 16, queueEvery}, {1 << 20, 4 * queueEvery}} {
		l := piece.Layout{Size: unit.Bytes(tt.pieces) * unit.KiB, Piece: unit.KiB}
		s := New(Config{Nodes: 3, Layout: l, Sites: []int{0, 0, 1}, AtOnce: 16, Rand: rand.New(rand.NewPCG(1, 2))})
		s.Asks(t0)
		s.Asks(at(tt.every - time.Millisecond))
		if got := s.site.looked; !got.Equal(t0) {
			t.Errorf("%d pieces: worked out again after %v", tt.pieces, got.Sub(t0))
		}
		s.Asks(at(2 * tt.every))
		if got := s.site.looked; got.Equal(t0) {
			t.Errorf("%d pieces: not worked out again within %v", tt.pieces, 2*tt.every)
		}
	}
}

// What is imported at a time comes from all sites that have anything, wherever in the object that lies; and two sites
// do not want the same of a third.
func TestImportsComeFromAllSites(t *testing.T) {
	const pieces = 90
	sites := []int{0, 1, 2}
	var of [3][]bool
	for self := range sites {
		s := New(Config{Self: self, Nodes: 3, Layout: layout(pieces), Sites: sites, AtOnce: 8, Rand: rand.New(rand.NewPCG(1, 2))})
		for p := range pieces {
			s.Known(p)
		}
		for rank := range sites {
			if rank != self {
				s.Up(rank)
				s.Announced(rank, piece.Range{Lo: 30 * rank, Hi: 30*rank + 30})
			}
		}
		for p := 30 * self; p < 30*self+30; p++ {
			s.Got(p)
		}
		s.Asks(t0)
		from := [3]int{}
		for p := range pieces {
			if s.site.begins(p) {
				from[p/30]++
			}
		}
		want := [3]int{4, 4, 4}
		want[self] = 0
		if from != want {
			t.Errorf("site %d imports %v from sites 0 to 2, want %v", self, from, want)
		}
		of[self] = s.site.begin
	}
	for p := range pieces {
		if n := p / 30; of[(n+1)%3][p] && of[(n+2)%3][p] {
			t.Errorf("both others want piece %d of site %d", p, n)
		}
	}
}

// What only one site has leaves it once: the others do not choose the same, whatever comes to be there meanwhile, and what one of them has is asked of that.
func TestOthersShareWhatOneSiteHas(t *testing.T) {
	const pieces = 90
	sites := []int{0, 1, 2}
	chosen := map[int]int{} // by piece: the site
	for self := 1; self < 3; self++ {
		s := New(Config{Self: self, Nodes: 3, Layout: layout(pieces), Sites: sites, AtOnce: 8, Rand: rand.New(rand.NewPCG(1, 2))})
		all := piece.NewSet(pieces)
		for p := range pieces {
			s.Known(p)
			all.Add(p)
		}
		s.Importing(all)
		for rank := range sites {
			if rank != self {
				s.Up(rank)
				s.Choked(rank, false)
			}
		}
		now := t0
		had := 0
		for p := range pieces / 18 {
			s.Announced(0, piece.Range{Lo: 18 * p, Hi: 18*p + 18})
			s.Asks(now)
			now = now.Add(queueEvery)
		}
		for p := range pieces {
			if s.site.begins(p) {
				had++
				if other, ok := chosen[p]; ok {
					t.Errorf("sites %d and %d both choose piece %d", other, self, p)
				}
				chosen[p] = self
			}
			if s.want(p) != nil && !s.site.begins(p) {
				t.Errorf("site %d has asked for piece %d, and has chosen others since", self, p)
			}
		}
		if had != 8 {
			t.Errorf("site %d has chosen %d pieces at a time, want 8", self, had)
		}
		other := 3 - self
		for p := range pieces {
			if !s.site.begins(p) && p%2 == 1 {
				s.Announced(other, piece.Range{Lo: p, Hi: p + 1})
			}
		}
		for p := range pieces {
			if s.site.begins(p) {
				s.Got(p)
			}
		}
		ask, _ := s.Asks(now.Add(queueEvery))
		if len(ask) == 0 {
			t.Errorf("site %d asks for nothing", self)
		}
		for _, a := range ask {
			if a.Peer != other && s.peers[other].has.Has(a.Piece) {
				t.Errorf("site %d asks site %d for piece %d, which site %d has as well", self, a.Peer, a.Piece, other)
			}
		}
	}
}

// Where no site alone has most of what is to be imported, a small one has its nodes import whatever they want to.
func TestSmallSitesImportWhatTheyWant(t *testing.T) {
	s := New(Config{Nodes: 3, Layout: layout(90), Sites: []int{0, 1, 2}, AtOnce: 8, Few: true, Rand: rand.New(rand.NewPCG(1, 2))})
	for p := range 90 {
		s.Known(p)
	}
	begin := func(now time.Time) (n int) {
		s.Asks(now)
		for p := range 90 {
			if s.site.begins(p) {
				n++
			}
		}
		return n
	}
	s.Announced(1, piece.Range{Lo: 0, Hi: 40})
	if n := begin(t0); n != 8 {
		t.Errorf("%d pieces may be begun, all of one site, want 8", n)
	}
	s.Announced(2, piece.Range{Lo: 40, Hi: 80})
	if n := begin(t0.Add(queueEvery)); n != 80 {
		t.Errorf("%d pieces may be begun, half of them of each site, want 80", n)
	}
}

// What only a node has of our site that sends nothing any more is asked of another site; when it sends
// something after all, of it again.
func TestMateThatHangsIsNotWaitedFor(t *testing.T) {
	s := alone(0)
	s.Announced(1, piece.Range{Lo: 0, Hi: 2})
	s.Announced(2, piece.Range{Lo: 0, Hi: 10})
	asked := func(now time.Time) (of [3][]int) {
		ask, _ := s.Asks(now)
		for _, a := range ask {
			of[a.Peer] = append(of[a.Peer], a.Piece)
		}
		return of
	}
	for now := t0; now.Before(t0.Add(SnubAfter)); now = now.Add(100 * time.Millisecond) {
		for _, p := range asked(now)[2] {
			if p < 2 {
				t.Fatalf("after %v: asks another site for piece %d, which a mate has", now.Sub(t0), p)
			}
			for b := range s.Layout.Blocks(p) {
				s.Block(2, p, b, now)
			}
			s.Got(p)
		}
	}
	if s.Importable(0) || s.Importable(1) || s.Have().Count() != 8 {
		t.Fatalf("of %d pieces the first ones could be imported: %v, %v", s.Have().Count(), s.Importable(0), s.Importable(1))
	}
	of := asked(t0.Add(SnubAfter + time.Second))
	if len(of[2]) == 0 || of[2][0] > 1 || len(of[1]) > 0 {
		t.Fatalf("asks the mate that hangs for %v, another site for %v", of[1], of[2])
	}
	s.Block(1, 9, 0, t0.Add(SnubAfter+2*time.Second))
	if _, cancel := s.Asks(t0.Add(SnubAfter + 2*time.Second)); len(cancel) == 0 || cancel[0].Peer != 2 || s.Importable(1-of[2][0]) {
		t.Errorf("the mate is back: cancels %v, and the other piece could be imported: %v", cancel, s.Importable(1-of[2][0]))
	}
}

// What crosses slowly from the only one that has it is not asked for again; it is when another has it, too.
func TestWhoAloneHasItIsWaitedFor(t *testing.T) {
	s := New(Config{Nodes: 4, Layout: layout(4), Sites: []int{0, 0, 1, 1}, Rand: rand.New(rand.NewPCG(1, 2))})
	all := piece.NewSet(4)
	for p := range 4 {
		s.Known(p)
		all.Add(p)
	}
	s.Importing(all)
	for rank := 1; rank < 4; rank++ {
		s.Up(rank)
	}
	s.Choked(2, false)
	s.Announced(2, piece.Range{Lo: 0, Hi: 4})
	if ask, _ := s.Asks(t0); len(ask) == 0 || ask[0].Peer != 2 {
		t.Fatalf("asks %v, want the only one that has anything", ask)
	}
	if _, cancel := s.Asks(at(2 * SnubAfter)); len(cancel) > 0 {
		t.Errorf("cancels %v, which nobody else has", cancel)
	}
	s.Announced(3, piece.Range{Lo: 0, Hi: 4})
	if _, cancel := s.Asks(at(3 * SnubAfter)); len(cancel) == 0 || cancel[0].Peer != 2 {
		t.Errorf("cancels %v, want what one owes that sends nothing", cancel)
	}
}

// Who alone has what we lack hoards it if it gives nothing. Not if it is of another site, and we have not asked it since others send as much as crosses.
func TestWhoWasNotAskedDoesNotHoard(t *testing.T) {
	for _, rank := range []int{1, 2} {
		s := alone(0)
		s.Announced(rank, piece.Range{Lo: 0, Hi: 10})
		if _, _, hoards := s.Hoards(rank, t0); hoards {
			t.Errorf("peer %d hoards at once", rank)
		}
		if _, _, hoards := s.Hoards(rank, at(HoardAfter+1)); hoards != s.near(rank) {
			t.Errorf("peer %d, which is of our site: %v, has given nothing for %v, and hoards: %v", rank, s.near(rank), HoardAfter, hoards)
		}
	}
}
