package lp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// solved solves p and returns the optimum that its dual proves.
func solved(t *testing.T, s Solver, p *Program) (Solution, float64) {
	t.Helper()
	sol, err := s.Solve(p)
	if err != nil {
		t.Fatal(err)
	}
	value, bound, err := p.Check(sol)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(bound-value) > 1e-5*(1+math.Abs(bound)) {
		t.Fatalf("the answer is worth %v, its dual says %v", value, bound)
	}
	return sol, value
}

// Two pipelines share a link of 900: X has three destinations, one behind a link
// of 600, Y has one.
func TestSharedLink(t *testing.T) {
	var p Program
	shared, access := p.Row(900), p.Row(600)
	x := p.Column(3, Entry{shared, 1}, Entry{access, 1})
	y := p.Column(1, Entry{shared, 1})
	sol, value := solved(t, &Simplex{}, &p)
	for i, c := range []struct{ got, want float64 }{{sol.X[x], 600}, {sol.X[y], 300}, {value, 2100}, {sol.Y[shared], 1}, {sol.Y[access], 2}} {
		if math.Abs(c.got-c.want) > 1e-4 {
			t.Errorf("number %d: got %v, want %v", i, c.got, c.want)
		}
	}
	// A floor takes from X what Y is to have.
	row, missed := p.Floor(450, 100, Entry{y, 1})
	sol, value = solved(t, &Simplex{}, &p)
	if math.Abs(value-1800) > 1e-3 || sol.X[missed] > 1e-6 || math.Abs(sol.Y[row]-2) > 1e-6 {
		t.Errorf("with a floor: value %v, missed %v, price %v; want 1800, 0, 2", value, sol.X[missed], sol.Y[row])
	}
	// One that cannot be held is missed by as little as can be.
	p.B[row] = -1000
	sol, _ = solved(t, &Simplex{}, &p)
	if math.Abs(sol.X[missed]-100) > 1e-3 {
		t.Errorf("a floor of 1000 on a link of 900 is missed by %v, want 100", sol.X[missed])
	}
}

func TestNoBound(t *testing.T) {
	var p Program
	p.Row(1)
	p.Column(1)
	if _, err := new(Simplex).Solve(&p); err == nil || !strings.Contains(err.Error(), "no bound") {
		t.Errorf("got %v", err)
	}
}

func TestCheckSees(t *testing.T) {
	var p Program
	r := p.Row(2)
	p.Column(3, Entry{r, 1})
	for _, c := range []struct {
		s    Solution
		want string
	}{
		{Solution{X: []float64{2}, Y: []float64{3}}, ""},
		{Solution{X: []float64{2.1}, Y: []float64{3}}, "row 0 is 2.1, more than 2"},
		{Solution{X: []float64{-1}, Y: []float64{3}}, "column 0 is -1"},
		{Solution{X: []float64{2}, Y: []float64{2.9}}, "the price of column 0 is 2.9, less than the 3"},
		{Solution{X: []float64{2}, Y: []float64{-1}}, "the price of row 0 is -1"},
		{Solution{X: []float64{math.NaN()}, Y: []float64{3}}, "column 0 is NaN"},
		{Solution{X: nil, Y: []float64{3}}, "0 columns"},
		{Solution{X: []float64{0}, Y: []float64{1000}}, "the answer is worth 0, and its prices allow 2000"},
		{Solution{X: []float64{2}, Y: []float64{3.001}}, "the answer is worth 6, and its prices allow 6.002"},
		{Solution{X: []float64{0}, Y: []float64{math.Inf(1)}}, "its prices allow +Inf"},
		{Solution{X: []float64{0}, Y: []float64{1000}, Early: true}, ""},
	} {
		_, _, err := p.Check(c.s)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: got %v, want %q", c.s, err, c.want)
		}
	}
}

// random is a program like those of pipelines: few rows a column, small whole
// coefficients, right sides that tie often, some floors.
func random(rng *rand.Rand, rows, cols int, tied, floors bool) *Program {
	p := &Program{}
	for range rows {
		b := 100 + 900*rng.Float64()
		if tied {
			b = 1000
		}
		if rng.IntN(20) == 0 {
			b = 0
		}
		p.Row(b)
	}
	for range cols {
		column(rng, p, rows)
	}
	if floors {
		for range 1 + rng.IntN(cols) {
			var es []Entry
			for _, j := range rng.Perm(cols)[:1+rng.IntN(min(cols, 3))] {
				es = append(es, Entry{int32(j), 1})
			}
			p.Floor(20*rng.Float64(), 1000, es...)
		}
	}
	return p
}

func column(rng *rand.Rand, p *Program, rows int) {
	var es []Entry
	for _, i := range rng.Perm(rows)[:1+rng.IntN(min(rows, 12))] {
		es = append(es, Entry{int32(i), float64(1 + rng.IntN(6)/5)})
	}
	p.Column(float64(1+rng.IntN(8)), es...)
}

// Whatever comes, the dual proves the answer: no other program is needed to judge it.
func TestRandomProgramsAreProved(t *testing.T) {
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rows, cols := 1+rng.IntN(40), 1+rng.IntN(120)
		p := random(rng, rows, cols, seed%3 == 0, seed%2 == 0)
		s := &Simplex{Seed: seed}
		_, before := solved(t, s, p)
		// It grows, and goes on from where it was; the answer is that of one that begins anew.
		for range 1 + rng.IntN(30) {
			column(rng, p, rows)
		}
		if seed%4 == 0 {
			p.Row(50, Entry{int32(rng.IntN(cols)), 1})
		}
		if seed%5 == 0 {
			p.Cost[rng.IntN(cols)] = -1
		}
		kept := s.Keep()
		_, after := solved(t, s, p)
		_, anew := solved(t, &Simplex{Seed: seed + 1}, p)
		if math.Abs(after-anew) > 1e-5*(1+math.Abs(anew)) {
			t.Fatalf("seed %d: %v from where it was (%v), %v anew", seed, after, before, anew)
		}
		s.Back(kept)
		if _, again := solved(t, s, p); math.Abs(again-anew) > 1e-5*(1+math.Abs(anew)) {
			t.Fatalf("seed %d: %v from a basis that was kept, %v anew", seed, again, anew)
		}
	}
}

// After right sides have changed it takes fewer steps to go on than to begin anew.
func TestRightSidesChange(t *testing.T) {
	on, over := 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 8))
		p := random(rng, 5+rng.IntN(60), 5+rng.IntN(150), seed%3 == 0, seed%2 == 0)
		s := &Simplex{Seed: seed}
		solved(t, s, p)
		for range 1 + rng.IntN(4) {
			i := rng.IntN(len(p.B))
			p.B[i] *= 0.2 + 1.5*rng.Float64()
		}
		if seed%4 == 0 {
			column(rng, p, 5)
		}
		before := s.Steps
		_, got := solved(t, s, p)
		on += s.Steps - before
		anew := &Simplex{Seed: seed + 1}
		_, want := solved(t, anew, p)
		over += anew.Steps
		if math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
			t.Fatalf("seed %d: %v from where it was, %v anew", seed, got, want)
		}
	}
	if on > over/3 {
		t.Errorf("%d steps to go on, %d to begin anew", on, over)
	}
}

// What cannot be repaired after right sides have changed begins anew: here a row lacks something, and what it has is too little to divide by; and here nearly all rows
// lack something, which is more exchanges than to begin anew.
func TestNotRepaired(t *testing.T) {
	var p Program
	a, b := p.Row(1), p.Row(1)
	p.Column(1, Entry{a, 1}, Entry{b, 5e-8})
	s := &Simplex{}
	if _, got := solved(t, s, &p); math.Abs(got-1) > 1e-9 {
		t.Fatalf("%v, want 1", got)
	}
	p.B[b] = 0
	if s.grow(); s.refresh() || s.repair() {
		t.Error("the basis is feasible")
	}
	if _, got := solved(t, s, &p); got != 0 {
		t.Errorf("with nothing in the second row %v, want 0", got)
	}

	rng := rand.New(rand.NewPCG(1, 8))
	many := random(rng, 600, 2000, false, false)
	solved(t, s, many)
	for i := range many.B {
		many.B[i] = 100 + 900*rng.Float64()
	}
	s.grow()
	before := s.Steps
	if s.refresh() || s.repair() || s.Steps-before != 200+len(many.B)/4 {
		t.Errorf("the basis is feasible after %d exchanges", s.Steps-before)
	}
	_, got := solved(t, s, many)
	if _, want := solved(t, &Simplex{Seed: 1}, many); math.Abs(got-want) > 1e-5*(1+want) {
		t.Errorf("%v from where it was, %v anew", got, want)
	}
}

// A floor that is held already takes no step, whether it is new or has become lower.
func TestFloorsThatAreHeld(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 9))
		rows, cols := 5+rng.IntN(40), 5+rng.IntN(100)
		p := random(rng, rows, cols, seed%3 == 0, false)
		s := &Simplex{Seed: seed}
		sol, before := solved(t, s, p)
		steps := s.Steps
		var floors []int32
		for range 5 {
			j := rng.IntN(cols)
			row, _ := p.Floor(sol.X[j]*rng.Float64()*0.99, 1000, Entry{int32(j), 1})
			floors = append(floors, row)
		}
		_, after := solved(t, s, p)
		for _, row := range floors {
			p.B[row] /= 2
		}
		_, lower := solved(t, s, p)
		if math.Abs(after-before) > 1e-5*(1+before) || math.Abs(lower-before) > 1e-5*(1+before) || s.Steps != steps {
			t.Fatalf("seed %d: %v, with floors %v, with lower ones %v; %d steps more", seed, before, after, lower, s.Steps-steps)
		}
	}
}

// What tells ties apart is little beside each row, however thin: all rows of nearly all answers hold. What the choice of rows that leave lets fall below zero is rare.
func TestThinRows(t *testing.T) {
	off := 0
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 10))
		p := random(rng, 5+rng.IntN(40), 5+rng.IntN(300), true, false)
		for i := range p.B {
			if rng.IntN(3) == 0 {
				p.B[i] *= 1e-7
			}
		}
		sol, _ := solved(t, &Simplex{Seed: seed}, p)
		for i, b := range p.B {
			sum := 0.0
			for _, e := range p.rows[i] {
				sum += e.Value * sol.X[e.At]
			}
			if b > 0 && sum > b*(1+1e-4) {
				off++
				break
			}
		}
	}
	if off > 5 {
		t.Errorf("%d of 1000 answers have rows that are too full", off)
	}
}

// Rows that tie are no obstacle, nor are some that have nothing: few steps, whatever tells them apart, and one optimum.
func TestTies(t *testing.T) {
	for _, c := range []struct {
		rows, cols int
		steps      int // of all seeds together; half as many, and fewer, were counted
	}{{60, 160, 600}, {120, 320, 1400}, {300, 300, 3000}, {300, 800, 4500}} {
		steps := 0
		for seed := range uint64(3) {
			p := random(rand.New(rand.NewPCG(seed, 11)), c.rows, c.cols, true, false) // one row in 20 has nothing
			one, other := &Simplex{Seed: seed}, &Simplex{Seed: seed + 100}
			_, got := solved(t, one, p)
			if _, want := solved(t, other, p); math.Abs(got-want) > 2e-7*want {
				t.Errorf("seed %d, %d rows: %v, and %v by another seed", seed, c.rows, got, want)
			}
			steps += one.Steps
		}
		if steps > c.steps {
			t.Errorf("%d rows, %d columns: %d steps, want %d at most", c.rows, c.cols, steps, c.steps)
		}
	}
}

// Which of two rows that tie has the price is as the seed moves them, the same each time.
func TestSeedTellsTiesApart(t *testing.T) {
	first := 0
	for seed := range uint64(40) {
		var p Program
		a, b := p.Row(1), p.Row(1)
		p.Column(1, Entry{a, 1}, Entry{b, 1})
		sol, _ := solved(t, &Simplex{Seed: seed}, &p)
		if again, _ := solved(t, &Simplex{Seed: seed}, &p); again.Y[a] != sol.Y[a] {
			t.Errorf("seed %d: prices %v, and then %v", seed, sol.Y, again.Y)
		}
		if sol.Y[a] > 0 {
			first++
		}
	}
	if first < 10 || first > 30 {
		t.Errorf("the first row has the price %d times of 40, want about half", first)
	}
}

// Of two rows that nearly tie the seed may take the wrong one for the narrower. Then the answer is what the basis has for the rows as they were moved, scaled down: it
// can be done all the same, and is two ten-millionths below the optimum at most.
func TestScaledDown(t *testing.T) {
	scaled := 0
	for seed := range uint64(40) {
		var p Program
		a, b := p.Row(1000), p.Row(1000*(1+3e-8))
		p.Column(1, Entry{a, 1}, Entry{b, 1})
		sol, got := solved(t, &Simplex{Seed: seed}, &p)
		if sol.X[0] > 1000 || got < 1000*(1-2e-7) {
			t.Errorf("seed %d: %.9f, want 1000 or 0.0002 less", seed, got)
		}
		if sol.X[0] < 1000 {
			scaled++
		}
	}
	if scaled < 5 {
		t.Errorf("%d of 40 took the wrong row: too few to tell", scaled)
	}
}

func TestDeterministic(t *testing.T) {
	var first Solution
	for i := range 2 {
		p := random(rand.New(rand.NewPCG(7, 7)), 60, 200, true, true)
		sol, _ := solved(t, &Simplex{Seed: 3}, p)
		if i == 0 {
			first = sol
		} else if fmt.Sprint(sol) != fmt.Sprint(first) {
			t.Error("two runs from one seed differ")
		}
	}
}

// glpsol of GLPK is a second opinion, on programs that it reads in CPLEX's form.
func TestAgainstGLPK(t *testing.T) {
	glpsol, err := exec.LookPath("glpsol")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("no glpsol; scripts/setup test installs it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 2))
		p := random(rng, 30+rng.IntN(200), 100+rng.IntN(600), seed%3 == 0, seed%2 == 0)
		_, got := solved(t, &Simplex{}, p)
		dir := t.TempDir()
		in, out := filepath.Join(dir, "p.lp"), filepath.Join(dir, "p.txt")
		if err := os.WriteFile(in, cplex(p), 0o600); err != nil {
			t.Fatal(err)
		}
		if said, err := exec.CommandContext(ctx, glpsol, "--lp", in, "-o", out).CombinedOutput(); err != nil {
			t.Fatalf("glpsol: %v\n%s", err, said)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		want := math.NaN()
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			if f := strings.Fields(lines.Text()); len(f) > 3 && f[0] == "Objective:" {
				want, _ = strconv.ParseFloat(f[3], 64)
			}
		}
		if !(math.Abs(got-want) <= 2e-6*(1+math.Abs(want))) {
			t.Errorf("seed %d: got %v, glpsol says %v", seed, got, want)
		}
	}
}

// cplex writes p in the form of CPLEX LP files.
func cplex(p *Program) []byte {
	var b bytes.Buffer
	b.WriteString("Maximize\n obj:")
	for j, c := range p.Cost {
		fmt.Fprintf(&b, "\n %+g x%d", c, j)
	}
	b.WriteString("\nSubject To\n")
	for i, r := range p.B {
		fmt.Fprintf(&b, " r%d:", i)
		for _, e := range p.rows[i] {
			fmt.Fprintf(&b, "\n %+g x%d", e.Value, e.At)
		}
		if len(p.rows[i]) == 0 {
			b.WriteString(" 0 x0")
		}
		fmt.Fprintf(&b, "\n <= %g\n", r)
	}
	b.WriteString("End\n")
	return b.Bytes()
}

func BenchmarkSimplex(b *testing.B) {
	for _, size := range []struct{ rows, cols int }{{800, 400}, {5000, 2000}} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for b.Loop() {
				p := random(rand.New(rand.NewPCG(1, 1)), size.rows, size.cols, false, false)
				if _, err := new(Simplex).Solve(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Who has enough soon gets what there is, and may go on later.
func TestEnough(t *testing.T) {
	p := random(rand.New(rand.NewPCG(3, 43)), 300, 900, false, true)
	whole := &Simplex{}
	_, want := solved(t, whole, p)
	asked := 0
	s := &Simplex{Enough: func() bool { asked++; return asked > 1 }}
	sol, err := s.Solve(p)
	if err != nil {
		t.Fatal(err)
	}
	if value, _, err := p.Check(sol); err != nil || !sol.Early || value > want*(1+1e-6) || s.Steps > 128 || s.Steps >= whole.Steps {
		t.Errorf("%v of %v after %d exchanges, %d are all; early: %v; %v", value, want, s.Steps, whole.Steps, sol.Early, err)
	}
	s.Enough = nil
	if _, got := solved(t, s, p); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
		t.Errorf("%v, want %v", got, want)
	}
}

// An answer that comes early can be carried out, and going on from there comes to the same.
func TestEarly(t *testing.T) {
	early := 0
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 42))
		p := random(rng, 40, 120, false, seed%2 == 0)
		_, want := solved(t, &Simplex{Seed: seed}, p)
		s := &Simplex{Seed: seed, Most: 5}
		sol, err := s.Solve(p)
		if err != nil {
			t.Fatal(err)
		}
		value, bound, err := p.Check(sol)
		if err != nil || value > want+1e-5*(1+math.Abs(want)) || s.Steps > 5 || sol.Early != math.IsInf(bound, 1) {
			t.Fatalf("seed %d: %v of %v after %d steps, bound %v: %v", seed, value, want, s.Steps, bound, err)
		}
		if sol.Early {
			early++
		}
		s.Most = 0
		if _, got := solved(t, s, p); math.Abs(got-want) > 1e-5*(1+math.Abs(want)) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
		p.B[0] = 0 // where the basis was there may be nothing to begin at; then it says so
		s.Most = 5
		if sol, err := s.Solve(p); err == nil {
			if _, _, err := p.Check(sol); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
	if early < 50 {
		t.Errorf("%d of 100 came early", early)
	}
}
