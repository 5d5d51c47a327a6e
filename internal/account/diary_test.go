package account

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// noted is the line of a diary of moments of a twentieth of a second, one for each letter: s, b and p say what comes in,
// with nothing else to wait for than the store, and a capital what is waited for while nothing does.
func noted(most int, moments string) (step float64, line string, times Times) {
	d := NewDiary(most, 0)
	for i := range moments {
		is := DoingOf(moments[i])
		wait := is
		if strings.ContainsRune("sbp", rune(moments[i])) {
			wait = ForStore
		}
		d.Note(0.05*float64(i+1), is == FromStore || is == FromBoth, is == FromPeers || is == FromBoth, wait)
	}
	d.End()
	step, line = d.Line()
	return step, line, d.Times()
}

func TestDiary(t *testing.T) {
	for name, c := range map[string]struct{ moments, want string }{
		"two phases":            {"sssssssBBBppppppDD", "sssssssBBBppppppDD"},
		"both at the same time": {"SSSSSSSbbbbbbbbss", "SSSSSSSbbbbbbbbss"},
		"blocks one by one":     {"bsssbsssppSSpD", "bbbbbbbbpppppD"}, // from the store to its last s, from peers from the first b to the last p
		"a lull":                {"sSSSSSSSsPPPPPPPp", "sSSSSSSSsPPPPPPPp"},
		"shorter than a lull":   {"sSSSsPPPPPPPpPPPp", "sssssPPPPPPPppppp"},
		"nothing":               {"", ""},
	} {
		if _, got, _ := noted(100, c.moments); got != c.want {
			t.Errorf("%s: of\n%s got\n%s want\n%s", name, c.moments, got, c.want)
		}
	}
	_, _, times := noted(100, "sssssssBBBppppppDD")
	for is, want := range map[Doing]float64{FromStore: 0.35, ForBarrier: 0.15, FromPeers: 0.3, ForDisk: 0.1, FromBoth: 0} {
		if math.Abs(times[is]-want) > 1e-9 {
			t.Errorf("%q took %v s, want %v", is.Letter(), times[is], want)
		}
	}
	d := NewDiary(100, 0)
	d.Note(0.05, true, false, ForStore)
	d.Note(0.1, true, true, ForDisk)
	d.End()
	if _, got := d.Line(); got != "sD" {
		t.Errorf("when all is there, and something comes: got %s", got)
	}
}

// Whatever is noted when, the times add up to what has passed, and the line is bounded.
func TestDiaryAddsUp(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		most := 2 + rnd.IntN(60)
		began := rnd.Float64() * 3
		d := NewDiary(most, began)
		at := began
		for range rnd.IntN(400) {
			at += rnd.ExpFloat64() * []float64{0, 0.05, 0.05, 5}[rnd.IntN(4)]
			d.Note(at, rnd.IntN(3) == 0, rnd.IntN(3) == 0, Waiting[rnd.IntN(len(Waiting))])
			d.Note(at-1, true, true, ForDisk) // a clock that went back
		}
		d.End()
		times := d.Times()
		if sum := times.Sum(Coming...) + times.Sum(Waiting...); math.Abs(sum-(at-began)) > 1e-6 || times[Other] != 0 {
			t.Fatalf("seed %d: times add up to %v, want %v", seed, sum, at-began)
		}
		step, line := d.Line()
		if len(line) > most || len(line) > 0 && (step*float64(len(line)) < at-1e-3 || step*float64(len(line)-1) > at+1e-3) {
			t.Fatalf("seed %d: %d steps of %v for %v s, want up to %d", seed, len(line), step, at, most)
		}
		if before := min(int(began/step), len(line)); strings.Trim(line[:before], "-") != "" {
			t.Fatalf("seed %d: it was at something before it began at %v: %s in steps of %v", seed, began, line, step)
		}
	}
}

// Of a longer step there is left what fills most of it.
func TestDiaryHalves(t *testing.T) {
	moments := strings.Repeat("s", 5) + strings.Repeat("p", 11) + strings.Repeat("D", 8) // 1.2 s, in 4 steps of 0.05 s at first
	if step, line, _ := noted(4, moments); step != 0.4 || line != "spD" {
		t.Errorf("got %s in steps of %v s", line, step)
	}
}

func TestLettersOfDoing(t *testing.T) {
	for d := Other; d < doings; d++ {
		if DoingOf(d.Letter()) != d || d.Of() == "other" != (d == Other) {
			t.Errorf("%d is %q, which is %d, and of %q", d, d.Letter(), DoingOf(d.Letter()), d.Of())
		}
	}
	if DoingOf('x') != Other {
		t.Error("an unknown letter stands for something")
	}
}
