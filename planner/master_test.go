package planner

import (
	"math"
	"testing"

	"github.com/freshet/freshet/internal/lp"
)

// rounded gives an answer whose zeros are a little below.
type rounded struct{ lp.Simplex }

func (r *rounded) Solve(p *lp.Program) (lp.Solution, error) {
	sol, err := r.Simplex.Solve(p)
	for _, v := range [][]float64{sol.X, sol.Y} {
		for i := range v {
			v[i] -= 1e-9
		}
	}
	return sol, err
}

// Pricing wants prices that are not below zero, whoever has computed them, and nobody gets a rate below zero.
func TestPricesAreNotNegative(t *testing.T) {
	n := star([2]float64{100, 100}, [2]float64{100, 100}, [2]float64{50, 50})
	m := n.master(n.rate, &lp.Simplex{})
	m.solver = &rounded{}
	for _, hosts := range [][]int32{{0, 1}, {0, 1, 2}, {0, 2}} {
		q, _ := n.pipe(0, hosts)
		m.add(float64(q.served()), q.use)
	}
	if _, err := m.solve(); err != nil {
		t.Fatal(err)
	}
	for c, price := range m.price {
		if price < 0 {
			t.Errorf("capacity %d has the price %v", c, price)
		}
	}
	for j := range int32(3) {
		if m.rate(j) < 0 {
			t.Errorf("column %d has the rate %v", j, m.rate(j))
		}
	}
}

func TestChoice(t *testing.T) {
	for _, have := range []crossing{0, 1, -1, 20000, -20000, 1 << 20, through, lends} {
		for token := range tokens {
			if c := chosen(have, token); c.have() != have || int(c.token()) != token {
				t.Errorf("%d with %d: %d with %d", have, token, c.have(), c.token())
			}
		}
	}
}

// A set that is there is not taken again: whoever solves the program, it comes to an end.
func TestSetsAreTakenOnce(t *testing.T) {
	n := star([2]float64{100, 100}, [2]float64{100, 100}, [2]float64{50, 50})
	d, _, err := n.normal(0, Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	var sets [][]pipe
	for _, walks := range [][][]int32{{{0, 1, 2}}, {{0, 1}, {0, 2}}} {
		var set []pipe
		for _, hosts := range walks {
			q, _ := n.pipe(0, hosts)
			set = append(set, q)
		}
		sets = append(sets, set)
	}
	c := n.concurrent([]demand{d}, sets[0])
	if c.add(0, sets[0], nil) || !c.add(0, sets[1], nil) || c.add(0, sets[1], nil) || len(c.master.prog.Cost) != 3 {
		t.Errorf("%d columns, want 3", len(c.master.prog.Cost))
	}
}

// What one capacity carries too much only those that cross it pay for.
func TestFit(t *testing.T) {
	n := star([2]float64{100, 100}, [2]float64{100, 100}, [2]float64{100, 1}, [2]float64{100, 100})
	var pipes []pipe
	for _, hosts := range [][]int32{{0, 1}, {0, 2}, {3, 2, 0}} {
		q, _ := n.pipe(0, hosts)
		pipes = append(pipes, q)
	}
	rates := []float64{99, 1.5, 0.5}
	n.fit(pipes, rates)
	for i, want := range []float64{99 * 100 / 100.5, 0.75, 0.25} {
		if math.Abs(rates[i]-want) > 1e-9 {
			t.Errorf("got %v; number %d is to be %v", rates, i, want)
		}
	}
}
