package limit

import (
	"math"
	"strings"
	"testing"

	"github.com/freshet/freshet/unit"
)

func TestParseDistribution(t *testing.T) {
	for _, tt := range []struct {
		in, want string // want: as printed
		mean     unit.Bandwidth
		bad      string // part of the error
	}{
		{in: "", want: "unlimited"}, {in: "0", want: "unlimited"}, {in: "unlimited", want: "unlimited"},
		{in: "5MB/s", want: "5MB/s", mean: 5e6},
		{in: "40Mbit", want: "5MB/s", mean: 5e6},
		{in: "1MiB/s", want: "1.048576MB/s", mean: 1 << 20},
		{in: "4MB/s-6MB/s", want: "4MB/s-6MB/s", mean: 5e6},
		{in: "paper", want: "paper", mean: 6.2625e6},
		{in: "paper*5", want: "paper*5", mean: 31.3125e6},
		{in: "65%:4MB/s-6MB/s,10%:6MB/s-8MB/s,25%:8MB/s-10.5MB/s", want: "65%:4MB/s-6MB/s,10%:6MB/s-8MB/s,25%:8MB/s-10.5MB/s", mean: 6.2625e6},
		{in: " 50%:1MB/s , 50%:3MB/s ", want: "50%:1MB/s,50%:3MB/s", mean: 2e6},
		{in: "5", bad: `rate "5"`},
		{in: "papers", bad: `rate "papers"`},
		{in: "paper*0", bad: `factor "0"`}, {in: "paper*x", bad: `factor "x"`},
		{in: "60%:4MB/s,30%:5MB/s", bad: "add up to 90%"},
		{in: "0.5:4MB/s,50%:5MB/s", bad: `weight "0.5"`},
		{in: "4MB/s,5MB/s", bad: `"4MB/s" has no weight`},
		{in: "6MB/s-4MB/s", bad: "the first is the larger"},
		{in: "50%:0,50%:4MB/s", bad: "cannot be drawn"},
		{in: "100%:4MB/s,0%:4MB/s", bad: "weight 0%"},
		{in: "50%:4MB/s,", bad: "has no weight"},
		{in: "NaN%:4MB/s", bad: "weight NaN"},
	} {
		d, err := ParseDistribution(tt.in)
		if tt.bad != "" {
			if err == nil || !strings.Contains(err.Error(), tt.bad) {
				t.Errorf("ParseDistribution(%q): got %v, want an error with %q", tt.in, err, tt.bad)
			}
			continue
		}
		if err != nil || d.String() != tt.want || math.Abs(float64(d.Mean()-tt.mean)) > 1 {
			t.Errorf("ParseDistribution(%q) = %v, mean %v, %v; want %v, mean %v", tt.in, d, d.Mean(), err, tt.want, tt.mean)
		}
	}
}

// The paper's figures: at most 6 MB/s on 60-70 % of the tries, at least 8 on
// 20-30 %, up to a little over 10.
func TestPaper(t *testing.T) {
	rng := Rand(1)
	const n = 100_000
	slow, fast := 0, 0
	for range n {
		switch r := Paper.Scaled(5).Draw(rng) / 5; {
		case r < 4*unit.MBps || r > 10.5*unit.MBps:
			t.Fatalf("drew %v", r)
		case r <= 6*unit.MBps:
			slow++
		case r >= 8*unit.MBps:
			fast++
		}
	}
	if s, f := float64(slow)/n, float64(fast)/n; s < 0.60 || s > 0.70 || f < 0.20 || f > 0.30 {
		t.Errorf("%.3f slow and %.3f fast, want 0.60-0.70 and 0.20-0.30", s, f)
	}
}

// What is printed of a distribution is what it draws from, and nobody changes it by reading.
func TestBands(t *testing.T) {
	half := Paper.Scaled(0.5)
	got := half.Bands()
	if len(got) != 3 || got[0] != (Band{0.65, 2 * unit.MBps, 3 * unit.MBps}) || got[2].Hi != 5.25*unit.MBps {
		t.Errorf("bands of the paper × 0.5: %v", got)
	}
	got[0].Lo = 1
	const want = "65 % 2 MB/s to 3 MB/s, 10 % 3 MB/s to 4 MB/s, 25 % 4 MB/s to 5.25 MB/s"
	if got := half.Words(); got != want {
		t.Errorf("in words: %q, want %q", got, want)
	}
	if (Distribution{}).Bands() != nil || (Distribution{}).Words() != "unlimited" {
		t.Errorf("of no limit: %v, %q", (Distribution{}).Bands(), (Distribution{}).Words())
	}
}

// One seed gives one sequence, and the n-th draw of any distribution uses the
// same two numbers.
func TestDrawIsComparable(t *testing.T) {
	a, b := Rand(7), Rand(7)
	for i := range 100 {
		Constant(unit.MBps).Draw(b)
		Paper.Draw(a)
		if x, y := Paper.Draw(a), Paper.Draw(b); x != y {
			t.Fatalf("draw %d: %v and %v", i, x, y)
		}
	}
	if r := (Distribution{}).Draw(a); r != 0 {
		t.Errorf("the zero distribution drew %v, want 0", r)
	}
}

func FuzzParseDistribution(f *testing.F) {
	for _, s := range []string{"", "paper", "paper*5", "5MB/s", "1bit-2Gbit", "65%:4MB/s-6MB/s,35%:8MB/s", "33.3%:1MB/s,66.7%:2B/s", "paper*1e-3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDistribution(s)
		if err != nil {
			return
		}
		again, err := ParseDistribution(d.String())
		if err != nil || again.String() != d.String() {
			t.Fatalf("%q prints as %q, which reads as %v, %v", s, d, again, err)
		}
		r1, r2 := Rand(1), Rand(1)
		for range 10 {
			if a, b := d.Draw(r1), again.Draw(r2); math.Abs(float64(a-b)) > 1e-9*math.Abs(float64(a)) {
				t.Fatalf("%q draws %v, read again %v", s, float64(a), float64(b))
			}
		}
	})
}
