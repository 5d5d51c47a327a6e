package steal

import (
	"math"
	"testing"

	"github.com/freshet/freshet/unit"
)

func TestBound(t *testing.T) {
	same := func(r unit.Bandwidth, n int) (rs []unit.Bandwidth) {
		for range n {
			rs = append(rs, r)
		}
		return rs
	}
	for _, tt := range []struct {
		name  string
		size  unit.Bytes
		nodes int
		rates Rates
		want  float64
		by    string
	}{
		{"nothing known", 1e9, 8, Rates{}, 0, ""},
		{"empty object", 0, 8, Rates{Down: same(1, 8)}, 0, ""},
		{"downlink", 1e9, 8, Rates{Down: same(1e8, 8), Store: same(5e7, 8), Up: same(1e8, 8)}, 10, "downlink"},
		{"one slow downlink", 1e9, 3, Rates{Down: []unit.Bandwidth{1e8, 1e7, 1e8}}, 100, "downlink"},
		// The paper's example: 300 MB at 10 + 2 + 2 MB/s.
		{"store", 300e6, 3, Rates{Store: []unit.Bandwidth{10e6, 2e6, 2e6}}, 300.0 / 14, "store"},
		{"store's total", 1e9, 8, Rates{Store: same(1e8, 8), Total: 2e8}, 5, "store"},
		{"uplinks", 1e9, 10, Rates{Store: same(1e7, 10), Up: same(1e7, 10)}, 50, "uplinks"},
		{"what enters a site", 1e9, 4, Rates{Down: same(1e8, 4), Sites: []Inbound{{"a", 0}, {"b", 5e7}, {"c", 6e7}}}, 20, "what enters site b"},
		{"what leaves the store's site", 1e9, 4, Rates{Down: same(1e8, 4), Sites: []Inbound{{"b", 5e7}}, Source: Outbound{"a", 4e7}}, 25, "what leaves site a"},
		{"sites that nothing limits", 1e9, 4, Rates{Down: same(1e8, 4), Sites: []Inbound{{"a", 0}, {"b", 2e8}}}, 10, "downlink"},
		{"one uplink unlimited", 1e9, 2, Rates{Store: same(1e8, 2), Up: []unit.Bandwidth{1, 0}}, 5, "store"},
	} {
		got, by := Bound(tt.size, tt.nodes, tt.rates)
		if math.Abs(got-tt.want) > 1e-9*tt.want || by != tt.by {
			t.Errorf("%s: %v by %q, want %v by %q", tt.name, got, by, tt.want, tt.by)
		}
	}
}

// What is not known is no limit, and does not hide what is.
func TestBoundsParts(t *testing.T) {
	got := Parts(100, 2, Rates{Down: []unit.Bandwidth{0, 20}, Store: []unit.Bandwidth{10, 0}, Up: []unit.Bandwidth{5, 5}, Total: 30})
	want := []Part{{"downlink", 20, 5}, {"store", 30, 100.0 / 30}, {"uplinks", 40, 5}}
	for i, p := range got {
		if p != want[i] {
			t.Errorf("got %+v, want %+v", p, want[i])
		}
	}
	for _, p := range Parts(100, 2, Rates{Store: []unit.Bandwidth{10, 0}}) {
		if p.Rate != 0 || p.Seconds != 0 {
			t.Errorf("of an unknown limit: got %+v", p)
		}
	}
}
