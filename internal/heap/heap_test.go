package heap

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

type triple struct {
	a float64
	b int32
	c string
}

func compare(x, y triple) int {
	return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b), cmp.Compare(x.c, y.c))
}

func draw(rng *rand.Rand, of int) triple {
	return triple{float64(rng.IntN(of)) - 1.5, int32(rng.IntN(of) - 1), string(rune('a' + rng.IntN(of)))}
}

// What goes in comes out sorted, once: by the first, those that are equal in it by the second, and so on.
func TestComesOutSorted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 32))
	var q Heap[float64, int32, string]
	for n := range 300 {
		var want []triple
		for range n {
			x := draw(rng, 1+n%7)
			want = append(want, x)
			q.Put(x.a, x.b, x.c)
		}
		slices.SortFunc(want, compare)
		for i, w := range want {
			if a, b, c := q.First(); (triple{a, b, c}) != w {
				t.Fatalf("%d elements: first %v %v %v, want %v as number %d", n, a, b, c, w, i)
			}
			if a, b, c := q.Take(); (triple{a, b, c}) != w {
				t.Fatalf("%d elements: took %v %v %v, want %v as number %d", n, a, b, c, w, i)
			}
		}
		if len(q) > 0 {
			t.Fatalf("%d of %d are left", len(q), n)
		}
	}
}

// A number that counts up as the last keeps what is equal otherwise in the order in which it came, as a stable sort does.
func TestTiesByNumber(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 32))
	var q Heap[int, int, int]
	var want [][2]int
	for i := range 1000 {
		key := rng.IntN(10)
		want = append(want, [2]int{key, i})
		q.Put(key, 0, i)
	}
	slices.SortStableFunc(want, func(x, y [2]int) int { return x[0] - y[0] })
	for _, w := range want {
		if key, _, i := q.Take(); key != w[0] || i != w[1] {
			t.Fatalf("took %d, number %d, want %d, number %d", key, i, w[0], w[1])
		}
	}
}

// At any time what is taken is the least of what is there.
func TestPutsBetweenTakes(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var q Heap[float64, int32, string]
		var there []triple
		for i := range 1000 {
			if len(there) == 0 || rng.IntN(100) < 40+int(seed)%20 {
				x := draw(rng, 20)
				there = append(there, x)
				q.Put(x.a, x.b, x.c)
				continue
			}
			want := slices.MinFunc(there, compare)
			there = slices.Delete(there, slices.Index(there, want), slices.Index(there, want)+1)
			if a, b, c := q.Take(); (triple{a, b, c}) != want {
				t.Fatalf("seed %d, step %d: took %v %v %v of %d, want %v", seed, i, a, b, c, len(q)+1, want)
			}
		}
		if len(q) != len(there) {
			t.Fatalf("seed %d: %d are left, want %d", seed, len(q), len(there))
		}
	}
}

// A heap that is emptied and filled again needs no memory.
func TestMemoryServesAgain(t *testing.T) {
	var q Heap[float64, int32, string]
	if n := testing.AllocsPerRun(10, func() {
		q = q[:0]
		for i := range 100 {
			q.Put(float64(100-i), int32(i), "")
		}
		for range 50 {
			q.Take()
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
