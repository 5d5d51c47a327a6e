package steal

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/piece"
)

// This file runs nodes whose messages come in any order, from a seed, and looks at what they fetch.

// message is one message of the simulated mesh. Messages between two nodes
// keep their order; between different pairs they overtake each other freely.
type message struct {
	kind  string // giveWork, works, took, have, dead
	hands []Hand
	claim Claim
	piece int
}

// mesh runs Nodes under a seeded scheduler that delivers any message of any
// pair next, lets nodes fetch one work at a time, and kills some of them at any moment.
type mesh struct {
	t       *testing.T
	rng     *rand.Rand
	nodes   []*Node
	living  []bool
	has     []*piece.Set // what each node has fetched
	views   [][]*piece.Set
	inHand  []int
	links   map[[2]int][]message
	fetched []int // by piece: times read from the store

	span      []piece.Range // what each node has in hand
	lags      []bool        // nodes that fetch nothing any more, and are overtaken for it; nil: none
	overtaken int
}

func newMesh(t *testing.T, seed uint64, nodes, pieces, perWork int, steals bool) *mesh {
	m := &mesh{t: t, rng: rand.New(rand.NewPCG(seed, 1)), links: map[[2]int][]message{}, fetched: make([]int, pieces)}
	d := Divide(pieces, seq(0, nodes), perWork)
	for i := range nodes {
		m.nodes = append(m.nodes, NewNode(i, nodes, d, steals))
		m.living = append(m.living, true)
		m.has = append(m.has, piece.NewSet(pieces))
		m.inHand = append(m.inHand, -1)
		m.span = append(m.span, piece.Range{})
		var v []*piece.Set
		for range nodes {
			v = append(v, piece.NewSet(pieces))
		}
		m.views = append(m.views, v)
	}
	return m
}

// held is what node i believes of living nodes' possessions.
func (m *mesh) held(i int) Held {
	return func(p int) bool {
		for k, v := range m.views[i] {
			if (m.nodes[i].living[k]) && v.Has(p) {
				return true
			}
		}
		return false
	}
}

func (m *mesh) send(from, to int, msg message) {
	if m.living[to] {
		k := [2]int{from, to}
		m.links[k] = append(m.links[k], msg)
	}
}

func (m *mesh) tell(from int, msg message) {
	for to := range m.nodes {
		if to != from {
			m.send(from, to, msg)
		}
	}
}

func (m *mesh) took(from int, claims []Claim) {
	for _, c := range claims {
		m.tell(from, message{kind: "took", claim: c})
	}
}

// step lets one thing happen; false if nothing can.
func (m *mesh) step() bool {
	var acts []func()
	keys := make([][2]int, 0, len(m.links))
	for k, q := range m.links {
		if len(q) > 0 && m.living[k[1]] {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	for _, k := range keys {
		acts = append(acts, func() { m.deliver(k) })
	}
	for i, n := range m.nodes {
		if !m.living[i] {
			continue
		}
		if m.inHand[i] >= 0 {
			if !m.slow(i) {
				acts = append(acts, func() { m.fetch(i) })
			}
		} else if n.Left() > 0 {
			acts = append(acts, func() {
				if w, r, ok := next(n, m.held(i)); ok {
					m.inHand[i], m.span[i] = w, r
				}
			})
		}
	}
	if len(acts) > 0 {
		acts[m.rng.IntN(len(acts))]()
		return true
	}
	for i, n := range m.nodes { // nothing else to do: let idle nodes ask
		if m.living[i] && m.inHand[i] < 0 {
			if v, ok := n.Ask(m.held(i)); ok {
				m.send(i, v, message{kind: "giveWork"})
				return true
			}
		}
	}
	for i, n := range m.nodes { // nor anybody to ask
		if m.lags == nil || !m.living[i] || m.slow(i) {
			continue
		}
		waited := func(rank, _ int) time.Duration {
			if m.slow(rank) {
				return time.Hour
			}
			return 2 * time.Second
		}
		if _, tell := n.Overtake(m.held(i), time.Second, time.Minute, false, waited); tell != nil {
			m.overtaken++
			m.took(i, tell)
			return true
		}
	}
	return false
}

func (m *mesh) slow(i int) bool { return m.lags != nil && m.lags[i] }

func (m *mesh) fetch(i int) {
	w, r := m.inHand[i], m.span[i]
	m.inHand[i] = -1
	for p := r.Lo; p < r.Hi; p++ {
		if m.held(i)(p) {
			continue
		}
		m.fetched[p]++
		m.has[i].Add(p)
		m.views[i][i].Add(p)
		m.tell(i, message{kind: "have", piece: p})
	}
	m.nodes[i].End(w)
	m.nodes[i].GoOn(w)
	if v, ok := m.nodes[i].Ask(m.held(i)); ok {
		m.send(i, v, message{kind: "giveWork"})
	}
}

func (m *mesh) deliver(k [2]int) {
	from, to := k[0], k[1]
	msg := m.links[k][0]
	m.links[k] = m.links[k][1:]
	n := m.nodes[to]
	switch msg.kind {
	case "giveWork":
		m.send(to, from, message{kind: "works", hands: n.Give(from, all)})
	case "works":
		took, err := n.Receive(from, msg.hands, m.held(to))
		if err != nil {
			m.t.Fatal(err)
		}
		m.took(to, took)
	case "took":
		tell, err := n.Took(msg.claim)
		if err != nil {
			m.t.Fatal(err)
		}
		m.took(to, tell)
	case "have":
		m.views[to][from].Add(msg.piece)
	case "dead":
		n.living[from] = false // for held
		m.took(to, n.Dead(from, m.held(to)))
	}
}

// kill ends node i. What it has sent arrives in part: each link loses a random tail.
func (m *mesh) kill(i int) {
	m.living[i] = false
	for to := range m.nodes {
		if to == i {
			continue
		}
		delete(m.links, [2]int{to, i})
		q := m.links[[2]int{i, to}]
		m.links[[2]int{i, to}] = append(slices.Clone(q[:m.rng.IntN(len(q)+1)]), message{kind: "dead"})
	}
}

func (m *mesh) run(maxSteps int, each func(step int)) {
	for s := range maxSteps {
		each(s)
		if !m.step() {
			return
		}
	}
	m.t.Fatalf("no end after %d steps", maxSteps)
}

func TestEachPieceIsFetchedOnce(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		nodes, pieces := 1+rng.IntN(9), rng.IntN(120)
		m := newMesh(t, seed, nodes, pieces, 1+rng.IntN(5), rng.IntN(4) > 0)
		m.run(100_000, func(int) {})
		for p, times := range m.fetched {
			if times != 1 {
				t.Fatalf("seed %d: piece %d of %d among %d nodes was fetched %d times", seed, p, pieces, nodes, times)
			}
		}
	}
}

// Whoever dies, thief or victim or bystander, at whatever message: when the
// survivors come to rest, one of them has every piece.
func TestNoWorkIsLostByDeaths(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		nodes, pieces := 2+rng.IntN(6), 1+rng.IntN(60)
		m := newMesh(t, seed, nodes, pieces, 1+rng.IntN(3), rng.IntN(4) > 0)
		deaths := map[int]int{}
		for range 1 + rng.IntN(nodes-1) {
			deaths[rng.IntN(4*pieces)] = rng.IntN(nodes)
		}
		left := nodes
		m.run(100_000, func(step int) {
			if victim, ok := deaths[step]; ok && m.living[victim] && left > 1 {
				m.kill(victim)
				left--
			}
		})
		for p := range pieces {
			if !slices.ContainsFunc(seq(0, nodes), func(i int) bool { return m.living[i] && m.has[i].Has(p) }) {
				t.Fatalf("seed %d: nobody living has piece %d (%d nodes, %d pieces, deaths %v)", seed, p, nodes, pieces, deaths)
			}
		}
	}
}
