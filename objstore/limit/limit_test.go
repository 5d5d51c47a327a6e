package limit

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/objstore/objstoretest"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

func TestConformance(t *testing.T) {
	for name, rates := range map[string]Rates{
		"unlimited": {},
		"limited":   {PerConnection: Paper.Scaled(1000), PerClient: 8 * unit.Gbit, Total: pace.New(8 * unit.Gbit)},
	} {
		t.Run(name, func(t *testing.T) {
			var m *mem.Store
			objstoretest.Run(t, objstoretest.Harness{
				Checksum: piece.CRC64NVME, Big: 256 * unit.KiB,
				Open: func(*testing.T) objstore.Store { m = mem.New(); return New(m, rates) },
				Deny: func(_ *testing.T, name string) { m.Deny(name) },
			})
		})
	}
}

// Readers at once, by client; each must take as long as its narrowest rate
// says, within what a burst gives away.
func TestRates(t *testing.T) {
	const size = 10_000_000
	band := func(lo, hi unit.Bandwidth) Distribution {
		d, err := Mixture(Band{1, lo, hi})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, tt := range []struct {
		name    string
		rates   Rates
		total   unit.Bandwidth
		clients [][]time.Duration // for each client, what its readers take
	}{
		{name: "per connection", rates: Rates{PerConnection: Constant(5e6)}, clients: [][]time.Duration{{2 * time.Second, 2 * time.Second}, {2 * time.Second}}},
		{name: "per client", rates: Rates{PerClient: 5e6}, clients: [][]time.Duration{{4 * time.Second, 4 * time.Second}, {2 * time.Second}}},
		{name: "total", total: 5e6, clients: [][]time.Duration{{6 * time.Second, 6 * time.Second}, {6 * time.Second}}},
		{name: "the narrowest", rates: Rates{PerConnection: Constant(1e6), PerClient: 5e6}, total: 50e6, clients: [][]time.Duration{{10 * time.Second}}},
		{name: "none", clients: [][]time.Duration{{0, 0}}},
		{name: "drawn", rates: Rates{PerConnection: band(2e6, 2e6+1)}, clients: [][]time.Duration{{5 * time.Second}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mem.New()
				o := m.Set("obj", make([]byte, size))
				total := pace.New(tt.total)
				var wg sync.WaitGroup
				for i, readers := range tt.clients {
					r := tt.rates
					r.Total = total
					s := New(m, r)
					for j, want := range readers {
						wg.Go(func() {
							began := time.Now()
							body, err := s.ReadRange(t.Context(), o, 0, size)
							if err != nil {
								t.Error(err)
								return
							}
							defer body.Close()
							n, err := io.Copy(io.Discard, body)
							if err != nil || n != size {
								t.Errorf("client %d reader %d: %d bytes, %v", i, j, n, err)
							}
							got := time.Since(began)
							if math.Abs(float64(got-want)) > 0.05*float64(want) {
								t.Errorf("client %d reader %d: took %v, want %v", i, j, got, want)
							}
						})
					}
				}
				wg.Wait()
			})
		})
	}
}

func TestContextEndsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mem.New()
		o := m.Set("obj", make([]byte, 1<<20))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := New(m, Rates{PerConnection: Constant(1000)}).ReadRange(ctx, o, 0, o.Size)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		began := time.Now()
		if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
