package main

import (
	"os"
	"testing"

	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/unit"
)

// TestExperiment runs two cells of it on two nodes: what the store drew, what
// the links carry and what became of the pieces is all in the numbers, and
// nothing stays behind.
func TestExperiment(t *testing.T) {
	lab.New(t, lab.Star([]string{"a"}, lab.Link{})) // says whether there can be one here
	const size, scale = 4 * unit.MiB, 2
	e := &experiment{size: size, scale: scale}
	t.Cleanup(func() { e.close() })
	var sums []float64
	for _, c := range cells([]int{2}, 1, size, scale)[:2] {
		got, err := e.run(t.Context(), &c)
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		objects := map[string]float64{"flat": 2, "non-steal": 1}[c.Algorithm]
		if got["store_multiple"] != objects || got["store_sent_multiple"] < objects || got["store_sent_multiple"] > objects*1.05 {
			t.Errorf("%v: %v objects left the store, and by its own count %v; want %v", c, got["store_multiple"], got["store_sent_multiple"], objects)
		}
		link := float64(lab.Payload(linkRate(scale))) / 1e6
		if sum := got["store_rates_mbps"]; sum < 2*4*scale || sum > 2*10.5*scale {
			t.Errorf("%v: the two connections had %v MB/s together", c, sum)
		}
		if got["link_mbps"] != link || got["iperf3_mbps"] > 1.05*link {
			t.Errorf("%v: a link of %v MB/s of payload, %v by iperf3; want %v", c, got["link_mbps"], got["iperf3_mbps"], link)
		}
		if got["ratio"] < 0.9 || got["fastest_s"] > got["mean_s"] || got["mean_s"] > got["slowest_s"] || got["phase1_s"] <= 0 {
			t.Errorf("%v: %v", c, got)
		}
		sums = append(sums, got["store_rates_mbps"])
	}
	if sums[0] != sums[1] {
		t.Errorf("two algorithms met other draws of one seed: %v", sums)
	}
	dir := e.dir
	if err := e.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}
