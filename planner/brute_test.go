package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// testTree is a random tree: switches below each other, hosts below them. Rates are few different
// ones, so that they tie often; some are 0, some links half-duplex.
func testTree(rng *rand.Rand, switches, hosts int, zeros bool) *Network {
	names := make([]string, 0, hosts+switches)
	for h := range hosts {
		names = append(names, fmt.Sprintf("h%d", h+1))
	}
	rate := func() float64 {
		if zeros && rng.IntN(12) == 0 {
			return 0
		}
		return float64(100 * (1 + rng.IntN(10)))
	}
	var links []edge
	link := func(a, b int) {
		l := edge{A: a, B: b, Rate: rate(), Back: rate(), Half: rng.IntN(8) == 0}
		if l.Half {
			l.Back = l.Rate
		}
		links = append(links, l)
	}
	for s := range switches {
		names = append(names, fmt.Sprintf("s%d", s))
		if s > 0 {
			link(hosts+s, hosts+rng.IntN(s))
		}
	}
	for h := range hosts {
		link(h, hosts+rng.IntN(switches))
	}
	return newNetwork(hosts, names, links, nil)
}

// forests calls f with every way to serve some of dests, each once, by pipelines from sources: all of
// them if every is set.
func forests(sources, dests []int32, every bool, f func(walks [][]int32)) {
	var walks [][]int32
	var put func(k int)
	put = func(k int) {
		if k == len(dests) {
			f(walks)
			return
		}
		if !every {
			put(k + 1)
		}
		for w := range walks {
			whole := walks[w]
			for at := 1; at <= len(whole); at++ {
				walks[w] = slices.Insert(slices.Clone(whole), at, dests[k])
				put(k + 1)
			}
			walks[w] = whole
		}
		for _, s := range sources {
			walks = append(walks, []int32{s, dests[k]})
			put(k + 1)
			walks = walks[:len(walks)-1]
		}
	}
	put(0)
}

func (n *Network) draw(rng *rand.Rand, sources, dests int) (s, d []int32) {
	for i, h := range rng.Perm(n.hosts)[:sources+dests] {
		if i < sources {
			s = append(s, int32(h))
		} else {
			d = append(d, int32(h))
		}
	}
	return s, d
}

// channels is how often these walks cross each channel.
func (n *Network) channels(walks [][]int32) []int {
	count := make([]int, len(n.capacity))
	for _, w := range walks {
		for i := 1; i < len(w); i++ {
			path, _ := n.way(nil, w[i-1], w[i])
			for _, c := range path {
				count[c]++
			}
		}
	}
	return count
}

// bottleneck is the narrowest share of a channel that these walks have if they share none; 0 if they do.
func (n *Network) bottleneck(walks [][]int32) float64 {
	least := math.Inf(1)
	count := n.channels(walks)
	for c, k := range count {
		switch {
		case k > 1:
			return 0
		case k == 1 && count[c^1] == 1:
			least = min(least, n.shared(int32(c)))
		case k == 1:
			least = min(least, n.of(int32(c)))
		}
	}
	return least
}

// served fails unless walks begin at sources and serve each of dests once.
func served(t *testing.T, sources, dests []int32, walks [][]int32) {
	t.Helper()
	var got []int32
	for _, w := range walks {
		if len(w) < 2 || !slices.Contains(sources, w[0]) {
			t.Fatalf("%v is no pipeline from one of %v", w, sources)
		}
		got = append(got, w[1:]...)
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(dests)); !slices.Equal(got, want) {
		t.Fatalf("%v serve %v, want %v", walks, got, want)
	}
}

// The widest pipelines are as wide as any that share nothing; so are the paper's where there is one source and no link is half duplex.
func TestWidestIsWidest(t *testing.T) {
	none, grown := 0, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		ns, nd := 1+rng.IntN(3), 1+rng.IntN(4)
		n := testTree(rng, 1+rng.IntN(5), ns+nd+rng.IntN(2), seed%3 == 0)
		s, d := n.draw(rng, ns, nd)
		best := 0.0
		forests(s, d, true, func(w [][]int32) { best = max(best, n.bottleneck(w)) })
		walks, width, ok := n.widest(n.subtree(s, d))
		if ok != (best > 0) || ok && width != best {
			t.Fatalf("seed %d: width %v (%v), the widest is %v", seed, width, ok, best)
		}
		if !ok {
			none++
			continue
		}
		served(t, s, d, walks)
		if got := n.bottleneck(walks); got != width {
			t.Fatalf("seed %d: %v are as wide as %v, said was %v", seed, walks, got, width)
		}
		half := false
		for l := range n.ends {
			half = half || n.capacity[2*l] == n.capacity[2*l+1]
		}
		if ns > 1 || half {
			continue
		}
		grown++
		walks = n.grown(&demand{sources: s, dests: d, sub: n.subtree(s, d)}, n.rate)
		served(t, s, d, walks)
		if got := n.bottleneck(walks); got != width {
			t.Fatalf("seed %d: grown are %v, as wide as %v, the widest are as wide as %v", seed, walks, got, width)
		}
	}
	if none == 0 || none > 1500 {
		t.Errorf("%d of 3000 cases have no pipelines that share nothing: too few or too many to tell", none)
	}
	if grown < 200 {
		t.Errorf("%d of 3000 cases have one source and links of two ways: too few to tell", grown)
	}
}

func TestBestIsBest(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		ns, nd := 1+rng.IntN(3), 1+rng.IntN(4)
		n := testTree(rng, 1+rng.IntN(5), ns+nd+rng.IntN(2), false)
		s, d := n.draw(rng, ns, nd)
		price := make([]float64, len(n.rate))
		for i := range price {
			if rng.IntN(3) > 0 {
				price[i] = rng.Float64() * float64(rng.IntN(4)) / 4
			}
		}
		value := make(map[int32]float64)
		for _, h := range d {
			value[h] = 1
			if seed%2 == 0 {
				value[h] += rng.Float64()
			}
		}
		profitOf := func(walks [][]int32) (sum float64) {
			for _, w := range walks {
				p, _ := n.pipe(0, w)
				for _, h := range w[1:] {
					sum += value[h]
				}
				for _, u := range p.use {
					sum -= u.times * price[u.capacity]
				}
			}
			return sum
		}
		best, spanning := 0.0, math.Inf(-1)
		forests(s, d, false, func(w [][]int32) { best = max(best, profitOf(w)) })
		forests(s, d, true, func(w [][]int32) { spanning = max(spanning, profitOf(w)) })
		sub := n.subtree(s, d)
		p := &pricer{net: n, price: price}
		values := make([]float64, len(sub.place))
		for i, h := range sub.place {
			values[i] = value[h]
		}
		walks, profit := p.best(sub, values)
		if math.Abs(profit-best) > 1e-9 || math.Abs(profitOf(walks)-best) > 1e-9 {
			t.Fatalf("seed %d: said %v, %v are worth %v, the best is %v", seed, profit, walks, profitOf(walks), best)
		}
		for i := range values {
			values[i] += 1000
		}
		walks, _ = p.best(sub, values)
		served(t, s, d, walks)
		if math.Abs(profitOf(walks)-spanning) > 1e-9 {
			t.Fatalf("seed %d: %v serve all and are worth %v, the best is %v", seed, walks, profitOf(walks), spanning)
		}
	}
}

// reference is what best says the profit is, by putting each number of walks with each, child after child.
func reference(net *Network, price []float64, t *subtree, value []float64) (profit float64) {
	type band struct {
		profit        map[int]float64
		through, lend float64
	}
	bands := make([]band, len(t.place))
	for i := len(t.place) - 1; i >= 0; i-- {
		up, down := 0.0, 0.0
		if c := t.up[i]; c >= 0 {
			up, down = price[net.capacity[c]], price[net.capacity[c^1]]
		}
		b := band{profit: map[int]float64{0: 0}, through: math.Inf(-1), lend: math.Inf(-1)}
		switch {
		case t.kind[i] == dest:
			b.profit[-1], b.through = value[i]-down, value[i]-down-up
		case t.kind[i] == source:
			for n := range int(t.all[i]) + 1 {
				b.profit[n] = -up * float64(n)
			}
		default:
			acc := [tokens]map[int]float64{{0: 0}, {}, {}}
			for _, ch := range t.children[i] {
				next := [tokens]map[int]float64{{}, {}, {}}
				put := func(token, n int, v float64) {
					if had, ok := next[token][n]; n <= int(t.all[i]) && (!ok || v > had) && !math.IsInf(v, -1) {
						next[token][n] = v
					}
				}
				for k := range tokens {
					for n, v := range acc[k] {
						for d, w := range bands[ch].profit {
							if d > 0 {
								put(fed, n+d, v+w)
							} else {
								put(k, n+d, v+w)
							}
						}
						put(max(k, needy), n, v+bands[ch].through)
						put(fed, n, v+bands[ch].lend)
					}
				}
				acc = next
			}
			at := func(token, n int) float64 {
				if v, ok := acc[token][n]; ok {
					return v
				}
				return math.Inf(-1)
			}
			for n := -int(t.below[i]); n <= int(t.all[i]); n++ {
				v := max(at(fed, n), at(quiet, n))
				if n < 0 {
					v = max(v, at(needy, n)) + float64(n)*down
				} else {
					v -= float64(n) * up
				}
				if b.profit[n] = v; math.IsInf(v, -1) {
					delete(b.profit, n)
				}
			}
			b.through, b.lend = at(needy, 0)-up-down, at(fed, 0)-up-down
			if t.up[i] == -1 {
				profit += b.profit[0]
			}
		}
		bands[i] = b
	}
	return profit
}

// With many leaves below a switch and many switches nothing is better than best either.
func TestBestOfMany(t *testing.T) {
	chained := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 41))
		ns, nd := 1+rng.IntN(4), 5+rng.IntN(40)
		switches := 1 + rng.IntN(8)
		if seed%3 == 2 {
			switches += 60
		}
		n := testTree(rng, switches, ns+nd+rng.IntN(5), false)
		s, d := n.draw(rng, ns, nd)
		price := make([]float64, len(n.rate))
		for i := range price {
			if rng.IntN(3) > 0 {
				price[i] = rng.Float64() * float64(rng.IntN(4)) / 4
			}
		}
		sub := n.subtree(s, d)
		for i := range sub.place {
			if sub.chained(i) {
				chained++
			}
		}
		values := make([]float64, len(sub.place))
		for i := range values {
			values[i] = float64(rng.IntN(3)) + rng.Float64()*float64(seed%2)
		}
		walks, profit := (&pricer{net: n, price: price}).best(sub, values)
		got := 0.0
		seen := map[int32]bool{}
		for _, w := range walks {
			q, ok := n.pipe(0, w)
			if !ok || !slices.Contains(s, w[0]) {
				t.Fatalf("seed %d: %v is no pipeline", seed, w)
			}
			for _, h := range w[1:] {
				if seen[h] {
					t.Fatalf("seed %d: %d is served twice", seed, h)
				}
				seen[h] = true
				got += values[slices.IndexFunc(sub.place, func(p int32) bool { return p == h })]
			}
			for _, u := range q.use {
				got -= u.times * price[u.capacity]
			}
		}
		if want := reference(n, price, sub, values); math.Abs(profit-want) > 1e-9 || math.Abs(got-want) > 1e-9 {
			t.Fatalf("seed %d: said %v, pipelines are worth %v, the best are worth %v", seed, profit, got, want)
		}
	}
	if chained < 300 {
		t.Errorf("%d switches in chains: too few to tell", chained)
	}
}

// What pricing needs grows with the number of sources and that of destinations, not with their product, nor with a square.
func TestBestOfVeryMany(t *testing.T) {
	const dests = 4000
	for _, sources := range []int{1, 4000} {
		rates := make([][2]float64, sources+dests)
		for i := range rates {
			rates[i] = [2]float64{100, 100}
		}
		n := star(rates...)
		hosts := make([]int32, sources+dests)
		for i := range hosts {
			hosts[i] = int32(i)
		}
		sub := n.subtree(hosts[:sources], hosts[sources:])
		values := make([]float64, len(sub.place))
		for i := range values {
			values[i] = 1
		}
		price := make([]float64, len(n.rate))
		for i := range price {
			price[i] = 0.25
		}
		var walks [][]int32
		var profit float64
		took := allocated(func() { walks, profit = (&pricer{net: n, price: price}).best(sub, values) })
		// One pipeline: a source's link up, all links down, and all up but the last.
		if want := dests * 0.5; len(walks) != 1 || len(walks[0]) != dests+1 || math.Abs(profit-want) > 1e-6 {
			t.Errorf("%d pipelines worth %v, want one worth %v", len(walks), profit, want)
		}
		if took > 50<<20 {
			t.Errorf("it took %d MB of memory for %d sources and %d destinations", took>>20, sources, dests)
		}
	}
}

// What pricing needs does not grow with the length of a chain of switches, whichever end of it is nearer to the root.
func TestBestBehindManySwitches(t *testing.T) {
	const switches, dests = 2000, 2000
	for _, turned := range []bool{false, true} {
		var names []string
		var links []edge
		link := func(a, b int) { links = append(links, edge{A: a, B: b, Rate: 100, Back: 100}) }
		near, far := dests+1, dests+switches
		if turned {
			near, far = far, near
		}
		for h := range dests + 1 {
			names = append(names, fmt.Sprintf("h%d", h))
			if h == 0 {
				link(h, near)
			} else {
				link(h, far)
			}
		}
		for s := range switches {
			names = append(names, fmt.Sprintf("s%d", s))
			if s > 0 {
				link(dests+s, dests+1+s)
			}
		}
		n := newNetwork(dests+1, names, links, nil)
		all := make([]int32, dests)
		for i := range all {
			all[i] = int32(i + 1)
		}
		sub := n.subtree([]int32{0}, all)
		values := make([]float64, len(sub.place))
		for i := range values {
			values[i] = 1
		}
		price := make([]float64, len(n.rate))
		for i := range price {
			price[i] = 0.25
		}
		var walks [][]int32
		var profit float64
		took := allocated(func() { walks, profit = (&pricer{net: n, price: price}).best(sub, values) })
		// One pipeline, over the chain once.
		if want := dests*0.5 - (switches-1)*0.25; len(walks) != 1 || len(walks[0]) != dests+1 || math.Abs(profit-want) > 1e-6 {
			t.Errorf("%d pipelines worth %v, want one worth %v", len(walks), profit, want)
		}
		if took > 10<<20 {
			t.Errorf("it took %d MB of memory for %d switches and %d destinations", took>>20, switches, dests)
		}
	}
}
