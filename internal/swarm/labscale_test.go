package swarm

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

var lab unit.Bytes

func init() {
	flag.Var(&lab, "lab", "also move an object of this `size` to 16 and 32 nodes on links as in the laboratory: 256MiB take minutes of processor")
}

// uneven is what the store gives each of some nodes, as a part of what it gives all in the mean: as uneven as in the paper's figure.
var uneven = []unit.Bandwidth{0.65, 0.8, 0.9, 1.0, 0.7, 1.6, 0.75, 1.5}

// In simulated time, on links and with objects as in the laboratory, a swarm is near the bound of what store and links can
// do, and one copy leaves the store. The log has the share of the links that was used, by node and by tenth of the time.
//
//	go test ./internal/swarm -run LabScale/16/medium -lab 256MiB -v
func TestStreamAtLabScale(t *testing.T) {
	if lab == 0 {
		t.Skip("takes minutes of processor: with -lab SIZE")
	}
	for _, c := range []struct {
		nodes int
		link  unit.Bandwidth
	}{
		{16, 50 * unit.Mbit},
		{32, 25 * unit.Mbit},
	} {
		for name, part := range map[string]unit.Bandwidth{"narrow": 0.06, "medium": 0.25} {
			t.Run(fmt.Sprintf("%d/%s", c.nodes, name), func(t *testing.T) {
				size := lab
				swarmOf(t, c.nodes, size, steal.Stream, func(b *bench) {
					b.mirror()
					rates := steal.Rates{}
					for i := range b.configs {
						rates.Down, rates.Up = append(rates.Down, c.link), append(rates.Up, c.link)
						rates.Store = append(rates.Store, uneven[i%len(uneven)]*part*c.link)
					}
					b.onStar(all(c.link), all(c.link), func(i int) unit.Bandwidth { return rates.Store[i] })
					b.run()
					b.complete(BySource, seq(c.nodes)...)
					bound, by := steal.Bound(size, c.nodes, rates)
					b.timeline(c.link)
					took := slices.Max(b.took).Seconds()
					received := unit.Bytes(0)
					for _, p := range b.results {
						received += p.PeerBytes
					}
					t.Logf("%d pieces: %.1f s, the first node %.1f s; %.3f of the bound by %s; from the store %.3f, from peers %.3f of what is needed",
						b.configs[0].Layout.Count(), took, slices.Min(b.took).Seconds(), took/bound, by,
						float64(b.storeBytes())/float64(size), float64(received)/float64(unit.Bytes(c.nodes)*size-b.storeBytes()))
					if took > 1.05*bound {
						t.Errorf("%.3f of the bound by %s, want 1.05 at most", took/bound, by)
					}
					if got := b.storeBytes(); got < size || got > size*102/100 {
						t.Errorf("%d bytes left the store, want %d and at most 2 %% more", got, size)
					}
				})
			})
		}
	}
}

// timeline logs how much of their links nodes received in pieces, by tenth of the time: of all, and of the one that got least.
func (b *bench) timeline(link unit.Bandwidth) {
	const parts = 20
	end := slices.Max(b.took).Seconds()
	got := make([][]float64, len(b.configs))
	for i := range got {
		got[i] = make([]float64, parts)
	}
	store := make([]float64, parts)
	for _, e := range b.events() {
		if e.Kind == "piece" {
			var rank int
			fmt.Sscanf(e.Node, "n%d", &rank)
			k := min(int(e.T/end*parts), parts-1)
			got[rank][k] += float64(e.Bytes) / (float64(link) * end / parts)
			if e.From == StoreName {
				store[k] += float64(e.Bytes) / (float64(link) * end / parts) / float64(len(got))
			}
		}
	}
	line := func(name string, of func(k int) float64) {
		s := ""
		for k := range parts {
			s += fmt.Sprintf(" %4.2f", of(k))
		}
		b.t.Logf("%-9s%s", name, s)
	}
	column := func(k int) (c []float64) {
		for i := range got {
			c = append(c, got[i][k])
		}
		return c
	}
	line("all", func(k int) (sum float64) {
		for _, v := range column(k) {
			sum += v / float64(len(got))
		}
		return sum
	})
	line("least", func(k int) float64 { return slices.Min(column(k)) })
	line("store", func(k int) float64 { return store[k] })
	last := slices.Index(b.took, slices.Max(b.took))
	line("last: "+nodeName(last), func(k int) float64 { return got[last][k] })
}

// mirror gives all nodes files that keep no bytes of their own: those of the object have to be written, and are read.
func (b *bench) mirror() {
	for i := range b.configs {
		b.disks[i] = nil
		b.configs[i].File = &mirror{data: b.data, here: piece.NewSet(len(b.data)/mirrored + 1)}
	}
}

// mirrored is what a mirror notes together: blocks consist of such parts, and end with one or with the object.
const mirrored = 4 << 10

type mirror struct {
	data []byte
	mu   sync.Mutex // guards here
	here *piece.Set // parts that were written
}

func (m *mirror) parts(off int64, n int) piece.Range {
	return piece.Range{Lo: int(off) / mirrored, Hi: (int(off) + n + mirrored - 1) / mirrored}
}

func (m *mirror) WriteAt(p []byte, off int64) (int, error) {
	if !bytes.Equal(p, m.data[off:int(off)+len(p)]) {
		return 0, errors.New("other bytes than the object's")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.here.AddRange(m.parts(off, len(p)))
	return len(p), nil
}

func (m *mirror) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for parts := m.parts(off, len(p)); !parts.Empty(); parts.Lo++ {
		if !m.here.Has(parts.Lo) {
			return 0, errors.New("never written")
		}
	}
	return copy(p, m.data[off:]), nil
}
