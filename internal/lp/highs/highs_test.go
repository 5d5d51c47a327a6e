package highs

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/internal/lp"
)

// The build of package highs 1.15.3 of the npm registry.
func TestModuleIsThePublishedOne(t *testing.T) {
	if got := fmt.Sprintf("%x", sha256.Sum256(wasm)); got != "528be4365bea1d4188988646b244263f50320df55782e14d6af5bce7cd45c840" {
		t.Errorf("highs.wasm has sha256 %s: the names of its imports and exports are of another version", got)
	}
}

// random is a program like those of pipelines: few rows a column, small whole coefficients, right sides that tie, some floors.
func random(rng *rand.Rand, rows, cols int, tied, floors bool) *lp.Program {
	p := &lp.Program{}
	for range rows {
		b := 100 + 900*rng.Float64()
		if tied {
			b = 1000
		}
		p.Row(b)
	}
	for range cols {
		var es []lp.Entry
		for _, i := range rng.Perm(rows)[:1+rng.IntN(min(rows, 12))] {
			es = append(es, lp.Entry{At: int32(i), Value: float64(1 + rng.IntN(6)/5)})
		}
		p.Column(float64(1+rng.IntN(8)), es...)
	}
	if floors {
		for range 1 + rng.IntN(cols) {
			p.Floor(20*rng.Float64(), 1000, lp.Entry{At: int32(rng.IntN(cols)), Value: 1})
		}
	}
	return p
}

// HiGHS and our own method agree, and what each says is proved by its own prices.
func TestAgreesWithSimplex(t *testing.T) {
	s := &Solver{}
	defer s.Close()
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := random(rng, 5+rng.IntN(200), 5+rng.IntN(500), seed%3 == 0, seed%2 == 0)
		var values [2]float64
		for i, solver := range []lp.Solver{s, &lp.Simplex{Seed: seed}} {
			sol, err := solver.Solve(p)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			value, bound, err := p.Check(sol)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if math.Abs(bound-value) > 1e-5*(1+math.Abs(bound)) {
				t.Fatalf("seed %d: the answer is worth %v, its dual says %v", seed, value, bound)
			}
			values[i] = value
		}
		if math.Abs(values[0]-values[1]) > 2e-6*(1+math.Abs(values[0])) {
			t.Errorf("seed %d: HiGHS says %v, we say %v", seed, values[0], values[1])
		}
	}
}

// broken gives an answer that is none; or one that can be done, with prices that can be, too, but are far too high to prove that nothing is better.
type broken struct {
	err   error
	loose bool
}

func (b broken) Solve(p *lp.Program) (sol lp.Solution, err error) {
	if b.loose {
		sol = lp.Solution{X: make([]float64, len(p.Cost)), Y: slices.Repeat([]float64{1000}, len(p.B))}
	}
	return sol, b.err
}

// It is asked where the first solver fails, and only there; and what it cannot answer is an error that says so, after which it can be asked again.
func TestSecondOpinion(t *testing.T) {
	s := &Solver{}
	defer s.Close()
	var p lp.Program
	row := p.Row(2)
	p.Column(3, lp.Entry{At: row, Value: 1})
	if sol, err := (lp.Or{First: &lp.Simplex{}, Second: s}).Solve(&p); err != nil || math.Abs(sol.X[0]-2) > 1e-5 || s.runtime != nil {
		t.Fatalf("%v, %v; asked: %v", sol, err, s.runtime != nil)
	}
	for _, first := range []lp.Solver{broken{}, broken{err: fmt.Errorf("too hard")}, broken{loose: true}} {
		sol, err := lp.Or{First: first, Second: s}.Solve(&p)
		if err != nil || math.Abs(sol.X[0]-2) > 1e-9 || math.Abs(sol.Y[0]-3) > 1e-9 {
			t.Errorf("%v, %v; want 2 at a price of 3", sol, err)
		}
		if _, err := (lp.Or{First: first}).Solve(&p); err == nil {
			t.Error("no error where there is no second solver")
		}
	}
	p.Column(1)
	if _, err := (lp.Or{First: broken{err: fmt.Errorf("too hard")}, Second: s}).Solve(&p); err == nil || !strings.Contains(err.Error(), "too hard; and then highs: ") {
		t.Errorf("a program without a bound: %v", err)
	}
	p.Cost[1] = -1
	if sol, err := s.Solve(&p); err != nil || math.Abs(sol.X[0]-2) > 1e-9 {
		t.Errorf("asked again: %v, %v", sol, err)
	}
}
