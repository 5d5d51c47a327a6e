package swarm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// cutUp makes several objects of the bench's one, whose sizes add up to its own.
func (b *bench) cutUp(size unit.Bytes, sizes ...unit.Bytes) {
	whole, at := objstore.Object{Key: "model/", Ranges: true}, unit.Bytes(0)
	var objects []objstore.Object
	for i, n := range sizes {
		objects = append(objects, b.store.Set(fmt.Sprintf("model/%02d", i), b.data[at:at+n]))
		at += n
	}
	whole.Size = at
	b.object = whole
	for i := range b.configs {
		b.configs[i].Object, b.configs[i].Objects, b.configs[i].Layout = whole, slices.Clone(objects), piece.Cut(sizes, size)
	}
}

func sum(sizes []unit.Bytes) (all unit.Bytes) {
	for _, n := range sizes {
		all += n
	}
	return all
}

// unevenSizes are the sizes of 32 objects, the largest 32 times as large as the smallest.
func unevenSizes(size unit.Bytes) (sizes []unit.Bytes) {
	for i := range 32 {
		sizes = append(sizes, size*unit.Bytes(i+1)/528)
	}
	sizes[31] += size - sum(sizes)
	return sizes
}

// Objects that belong together are one pool: 32 of them take no longer than one as large, and leave the store once.
func TestSeveralObjectsAreOnePool(t *testing.T) {
	measures(t)
	const nodes, size, link = 8, 24 * unit.MiB, unit.Bandwidth(2 * unit.MiB)
	took := map[string]time.Duration{}
	for _, how := range []string{"one", "32"} {
		swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
			for i := range b.configs {
				b.configs[i].Layout.Piece = 64 * unit.KiB
			}
			if how == "32" {
				b.cutUp(64*unit.KiB, unevenSizes(size)...)
			}
			b.onStar(all(link), all(link), all(link/4))
			b.run()
			b.complete(BySource, seq(nodes)...)
			took[how] = slices.Max(b.took)
			if got := b.storeBytes(); got < size || got > size*102/100 {
				t.Errorf("%s: %d bytes left the store, want %d and at most 2 %% more", how, got, size)
			}
		})
	}
	if took["32"] > took["one"]*11/10 {
		t.Errorf("32 objects take %v, one as large %v", took["32"], took["one"])
	}
}

// a mixture of large and small objects, and empty ones, in pieces of 256 KiB.
var mixture = append([]unit.Bytes{3*unit.MiB + 5, unit.MiB, 700_000, 256 * unit.KiB, 0, 250_000, 90_000, 1, 0}, slices.Repeat([]unit.Bytes{5000}, 100)...)

func TestMixtureOfObjects(t *testing.T) {
	for _, a := range steal.Algorithms {
		for name, option := range map[string]mem.Option{
			"full": mem.Checksum(piece.CRC32), "composite": mem.Composite(piece.CRC32C, 512*unit.KiB),
		} {
			t.Run(a+"/"+name, func(t *testing.T) {
				swarmOf(t, 3, sum(mixture), a, func(b *bench) {
					b.cutUp(256*unit.KiB, mixture...)
					b.run()
					b.complete(BySource, 0, 1, 2)
					want := b.object.Size
					if a == steal.Flat {
						want *= 3
					}
					if got := b.storeBytes(); got != want {
						t.Errorf("%d bytes left the store, want %d", got, want)
					}
					for i, p := range b.results {
						if p.Objects != len(mixture) || len(p.Faults) > 0 {
							t.Errorf("%s: has %d objects of %d, faults %v", nodeName(i), p.Objects, len(mixture), p.Faults)
						}
					}
				}, option)
			})
		}
	}
}

// An object that the store keeps no checksum for is not said to be verified by it, be it large or small.
func TestOneOfSeveralHasNoChecksum(t *testing.T) {
	for _, i := range []int{0, 6} {
		swarmOf(t, 2, sum(mixture), steal.Stream, func(b *bench) {
			b.cutUp(256*unit.KiB, mixture...)
			for k := range b.configs {
				b.configs[k].Objects[i].Checksum = piece.Checksum{}
			}
			b.run()
			b.complete(ByPeers, 0, 1)
		})
	}
}

// misreading is a store that delivers a byte of one object wrong, the first times.
type misreading struct {
	objstore.Store
	key   string
	mu    sync.Mutex // guards times
	times int
}

func (s *misreading) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r, err := s.Store.ReadRange(ctx, o, off, n)
	at := o.Size / 2
	if err != nil || o.Key != s.key || at < off || at >= off+n {
		return r, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.times > 0 {
		s.times--
		b[at-off] ^= 4
	}
	return io.NopCloser(bytes.NewReader(b)), err
}

// What is read wrong once is read again, be it an object with pieces of its own or one that shares a piece; what the store has wrong
// is named, and nothing is put in its place.
func TestObjectReadWrong(t *testing.T) {
	for _, key := range []string{"model/00", "model/06", "model/50"} {
		for _, times := range []int{1, 1000} {
			t.Run(fmt.Sprintf("%s/%d", key, times), func(t *testing.T) {
				var placed atomic.Int64
				swarmOf(t, 3, sum(mixture), steal.Stream, func(b *bench) {
					b.cutUp(256*unit.KiB, mixture...)
					s := &misreading{Store: b.store, key: key, times: times}
					for i := range b.configs {
						b.configs[i].Store = s
						b.configs[i].Commit = func() error { placed.Add(1); return nil }
					}
					b.run()
					if times == 1 {
						b.complete(BySource, 0, 1, 2)
						return
					}
					if placed.Load() > 0 {
						t.Errorf("%d nodes put the objects in their place", placed.Load())
					}
					want, named := strings.TrimPrefix(key, "model/")+" of model/: read twice", false
					for i, err := range b.errs {
						if err == nil {
							t.Errorf("%s has all", nodeName(i))
						}
						named = named || strings.Contains(fmt.Sprint(err), want) && strings.Contains(fmt.Sprint(err), "damaged")
					}
					if !named {
						t.Errorf("errors %q, want that one says %q", b.errs, want)
					}
				})
			})
		}
	}
}

// If one of many objects is replaced, that one is named, and none is put in its place anywhere.
func TestOneOfSeveralIsReplaced(t *testing.T) {
	var placed atomic.Int64
	swarmOf(t, 3, 20*unit.MiB, steal.Stream, func(b *bench) {
		b.cutUp(256*unit.KiB, unevenSizes(20*unit.MiB)...)
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 2 << 20}
			b.configs[i].Commit = func() error { placed.Add(1); return nil }
		}
		b.after(500*time.Millisecond, func() { b.store.Set("model/31", []byte("another")) })
		b.run()
		named := false
		for i, err := range b.errs {
			if err == nil {
				t.Errorf("%s has all", nodeName(i))
			}
			named = named || errors.Is(err, objstore.ErrChanged) && strings.Contains(err.Error(), "31 of model/")
		}
		if !named || placed.Load() > 0 {
			t.Errorf("errors %q, want that one names object 31; %d nodes put them in their place", b.errs, placed.Load())
		}
	})
}

// A node that had all before the job gives it, unless one of its files is not what the store has.
func TestHeldObjects(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		swarmOf(t, 3, sum(mixture), steal.Stream, func(b *bench) {
			b.cutUp(256*unit.KiB, mixture...)
			for i := range b.configs {
				b.configs[i].Members[1].Held = true
			}
			copy(b.disks[1].b, b.data)
			b.configs[1].Commit = nil
			if wrong {
				b.disks[1].b[len(b.data)-2500] ^= 1 // of the last one, which is small
			}
			b.run()
			if !wrong {
				b.complete(BySource, 0, 1, 2)
				if got := b.storeBytes(); got != 0 {
					t.Errorf("%v left the store although a node has all", got)
				}
				return
			}
			b.complete(BySource, 0, 2)
			if err := b.errs[1]; !errors.Is(err, ErrHeldWrong) || !strings.Contains(err.Error(), "108 of model/") {
				t.Errorf("n1, whose last file is wrong: %v", err)
			}
		})
	}
}

// hesitant is a store that thinks before each answer.
type hesitant struct {
	objstore.Store
	pause time.Duration
}

func (h hesitant) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	select {
	case <-time.After(h.pause):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return h.Store.ReadRange(ctx, o, off, n)
}

// Small objects do not cost the store's pause each.
func TestSmallObjectsAreAskedForAhead(t *testing.T) {
	sizes := slices.Repeat([]unit.Bytes{4 * unit.KiB}, 256)
	const pause = 100 * time.Millisecond
	swarmOf(t, 1, sum(sizes), steal.Stream, func(b *bench) {
		b.cutUp(256*unit.KiB, sizes...)
		b.configs[0].Store = hesitant{b.store, pause}
		b.run()
		b.complete(BySource, 0)
		if one := pause * time.Duration(len(sizes)); b.took[0] > one/8 {
			t.Errorf("%d objects took %v, one after the other would take %v", len(sizes), b.took[0], one)
		}
	})
}

// A layout that is not that of the objects is refused.
func TestLayoutOfOtherObjects(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"one too few": func(c *Config) { c.Objects = c.Objects[1:] },
		"other sizes": func(c *Config) { c.Objects[0].Size++ },
		"none":        func(c *Config) { c.Objects = nil },
		"no ranges":   func(c *Config) { c.Object.Ranges = false },
	} {
		swarmOf(t, 1, 3*unit.MiB, steal.Stream, func(b *bench) {
			b.cutUp(256*unit.KiB, unit.MiB, 2*unit.MiB)
			change(&b.configs[0])
			b.run()
			if b.errs[0] == nil {
				t.Errorf("%s: passes", name)
			}
		})
	}
}

// Files that are in their places before the job do not move again, as long as they are what they should be.
func TestKeptObjects(t *testing.T) {
	const size = 20 * unit.MiB
	for _, a := range steal.Algorithms {
		for _, wrong := range []int{-1, 0, 8} { // an object of which the first node has a wrong byte: one that shares a piece, one with its own
			t.Run(fmt.Sprintf("%s/%d", a, wrong), func(t *testing.T) {
				swarmOf(t, 3, size, a, func(b *bench) {
					sizes := unevenSizes(size)
					b.cutUp(256*unit.KiB, sizes...)
					layout := b.configs[0].Layout
					const fresh = 20 // the one that is new
					for i := range b.configs {
						b.configs[i].Kept = slices.Repeat([]bool{true}, len(sizes))
						b.configs[i].Kept[fresh] = false
						copy(b.disks[i].b, b.data)
						off, n := layout.Object(fresh)
						clear(b.disks[i].b[off : off+n])
					}
					want := sizes[fresh]
					if wrong >= 0 {
						off, _ := layout.Object(wrong)
						b.disks[0].b[off+7] ^= 1
						_, object := layout.RangeSpan(layout.Pieces(wrong))
						want += 3 * (object + layout.Piece) // at most: each compares what is of the object, and replaces what is wrong
					}
					if a == steal.Flat {
						want *= 3
					}
					b.run()
					b.complete(BySource, 0, 1, 2)
					if got := b.storeBytes(); got > want || wrong < 0 && got != want {
						t.Errorf("%d bytes left the store, want %d", got, want)
					}
				})
			})
		}
	}
}
