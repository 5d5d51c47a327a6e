package access

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/unit"
)

func random(seed byte, n unit.Bytes) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// Every place lies in the object, wherever it is drawn.
func TestDrawnPlaces(t *testing.T) {
	for _, tt := range []struct{ size, want unit.Bytes }{
		{0, 0}, {1, 1}, {4 * unit.KiB, 4 * unit.KiB}, {unit.MiB, 4 * unit.KiB}, {unit.GiB, 16 * unit.KiB}, {unit.TiB, 64 * unit.KiB},
	} {
		offsets := map[unit.Bytes]bool{}
		for range 200 {
			c := Draw(objstore.Object{Size: tt.size, Ranges: true})
			if c.Size != tt.want {
				t.Fatalf("%v: a place of %v, want %v", tt.size, c.Size, tt.want)
			}
			if err := c.check(tt.size); err != nil {
				t.Fatalf("%v: %+v: %v", tt.size, c, err)
			}
			offsets[c.Off] = true
		}
		if tt.size >= unit.MiB && len(offsets) < 190 {
			t.Errorf("%v: only %d different places of 200", tt.size, len(offsets))
		}
	}
	if c := Draw(objstore.Object{Size: unit.GiB}); c.Off != 0 {
		t.Errorf("without ranges the place begins at %v", c.Off)
	}
}

func TestImproperChallenges(t *testing.T) {
	good := Draw(objstore.Object{Size: unit.MiB, Ranges: true})
	for name, change := range map[string]func(c *Challenge){
		"none":           func(c *Challenge) { *c = Challenge{} },
		"short nonce":    func(c *Challenge) { c.Nonce = c.Nonce[1:] },
		"behind the end": func(c *Challenge) { c.Off = unit.MiB - c.Size + 1 },
		"before the beginning": func(c *Challenge) {
			c.Off = -1
		},
		"easily guessed": func(c *Challenge) { c.Size = 1 },
		"too long":       func(c *Challenge) { c.Off, c.Size = 0, 128*unit.KiB },
		"overflow":       func(c *Challenge) { c.Off = 1<<63 - 1 },
	} {
		c := good
		change(&c)
		if c.check(unit.MiB) == nil {
			t.Errorf("%s: %+v passes", name, c)
		}
	}
}

// A proof is right for one node, one job, one challenge and one content.
func TestProofs(t *testing.T) {
	ctx := t.Context()
	for _, size := range []unit.Bytes{0, 1, 100 * unit.KiB, 2 * unit.MiB} {
		for _, ranges := range []bool{true, false} {
			var options []mem.Option
			if !ranges {
				options = append(options, mem.NoRanges())
			}
			store, other := mem.New(options...), mem.New(options...)
			o := store.Set("o", random(1, size))
			c := Draw(o)
			read := func(c Challenge, job string, s *mem.Store, o objstore.Object) *Witness {
				t.Helper()
				w, err := c.Read(ctx, job, s, o)
				if err != nil {
					t.Fatal(err)
				}
				return w
			}
			a, b := read(c, "job", store, o), read(c, "job", store, o)
			if !bytes.Equal(a.secret, random(1, size)[c.Off:c.Off+c.Size]) {
				t.Errorf("%v: read other bytes than those of the place", size)
			}
			if !b.Convinced("n1", a.Proof("n1")) {
				t.Errorf("%v: a right proof does not convince", size)
			}
			again := Draw(o)
			wrong := map[string][]byte{
				"another's":      a.Proof("n2"),
				"another job's":  read(c, "job2", store, o).Proof("n1"),
				"another draw's": read(again, "job", store, o).Proof("n1"),
				"none":           nil,
				"cut":            a.Proof("n1")[:ProofBytes-1],
			}
			if size > 0 {
				wrong["another object's"] = read(c, "job", other, other.Set("o", random(2, size))).Proof("n1")
			}
			for name, proof := range wrong {
				if b.Convinced("n1", proof) {
					t.Errorf("%v: %s proof convinces", size, name)
				}
			}
		}
	}
}

// Of several objects there is a place in each, but for empty ones; of very many in the largest and in others that are drawn anew each time.
func TestPlacesInSeveralObjects(t *testing.T) {
	few := []objstore.Object{{Size: unit.GiB, Ranges: true}, {Size: 0, Ranges: true}, {Size: 10, Ranges: true}}
	c := DrawFrom(few)
	if len(c.Places) != 2 || c.Places[0].Object != 0 || c.Places[0].Size != 16*unit.KiB || c.Places[1] != (Place{2, 0, 10}) {
		t.Errorf("places %+v", c.Places)
	}
	many := make([]objstore.Object, 5000)
	for i := range many {
		many[i] = objstore.Object{Size: unit.Bytes(1 + i), Ranges: true}
	}
	seen := map[int]int{}
	for range 20 {
		c := DrawFrom(many)
		if err := c.checkPlaces(many); err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Places {
			seen[p.Object]++
		}
	}
	for i := len(many) - largestPlaces; i < len(many); i++ {
		if seen[i] != 20 {
			t.Fatalf("object %d of %d, by size, was drawn %d times of 20", i, len(many), seen[i])
		}
	}
	if len(seen) < 10*largestPlaces {
		t.Errorf("only %d different objects were drawn", len(seen))
	}

	if got := DrawFrom([]objstore.Object{{Size: 6 * unit.MiB, Ranges: true}}).Places; got[0].Size != unit.KiB {
		t.Errorf("places of a small object: %+v", got)
	}

	good := DrawFrom(few)
	for name, change := range map[string]func(c *Challenge){
		"none":          func(c *Challenge) { *c = Challenge{} },
		"short nonce":   func(c *Challenge) { c.Nonce = c.Nonce[1:] },
		"one too few":   func(c *Challenge) { c.Places = c.Places[1:] },
		"twice one":     func(c *Challenge) { c.Places = []Place{c.Places[0], c.Places[0]} },
		"none of these": func(c *Challenge) { c.Places = []Place{c.Places[0], {3, 0, 10}} },
		"empty":         func(c *Challenge) { c.Places = []Place{{0, 0, 0}, c.Places[1]} },
		"too short":     func(c *Challenge) { c.Places = []Place{{0, 0, 1023}, c.Places[1]} },
	} {
		c := good
		change(&c)
		if c.checkPlaces(few) == nil {
			t.Errorf("%s: %+v passes", name, c)
		}
	}
	if err := DrawFrom(few[1:2]).checkPlaces(few[1:2]); err != nil {
		t.Errorf("of nothing but empty objects: %v", err)
	}
}

// Who may read all but one of the objects has no proof.
func TestProofOfSeveral(t *testing.T) {
	store, ctx := mem.New(), t.Context()
	objects := []objstore.Object{store.Set("m/a", random(1, 100*unit.KiB)), store.Set("m/b", nil), store.Set("m/c", random(2, 10))}
	c := DrawFrom(objects)
	a, err := c.ReadFrom(ctx, "job", store, objects)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.ReadFrom(ctx, "job", store, objects)
	if err != nil || !b.Convinced("n1", a.Proof("n1")) || b.Convinced("n1", a.Proof("n2")) {
		t.Errorf("a right proof has to convince (%v), and another's not", err)
	}
	other := mem.New()
	others := []objstore.Object{other.Set("m/a", random(1, 100*unit.KiB)), other.Set("m/b", nil), other.Set("m/c", random(3, 10))}
	if wrong, err := c.ReadFrom(ctx, "job", other, others); err != nil || b.Convinced("n1", wrong.Proof("n1")) {
		t.Errorf("a proof without one of the objects convinces (%v)", err)
	}
	store.Deny("m/c")
	if _, err := c.ReadFrom(ctx, "job", store, objects); !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("one object may not be read: %v", err)
	}
}
