package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/freshet/freshet/steal"
)

// What comes into a site comes once, wherever the store is and whoever reads it, and nobody waits long for it; of a node that dies or hangs, what only it had comes again.
func TestSitesAreEnteredOnce(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		most       float64 // times the object
	}{
		{"two sites", `
network: {generate: sites, sites: 2, hosts: 4, rate: 1Gbit, between: 100Mbit, between_delay: 5ms}
broadcast: {size: 100MB, piece: 512KiB, store: {at: s1}}
`, 1.02},
		{"the store between them", `
network: {generate: sites, sites: 2, hosts: 4, rate: [1Gbit, 1Gbit, 300Mbit], between: 100Mbit, between_delay: 5ms}
broadcast: {size: 100MB, piece: 512KiB, store: {at: wan, per_connection: 40Mbit}}
`, 1.02},
		{"three sites, one node slow", `
network: {generate: sites, sites: 3, hosts: 3, rate: 1Gbit, between: 100Mbit, between_delay: 5ms}
broadcast: {size: 100MB, piece: 512KiB, store: {at: wan}}
events: [{at: 1s, node: h5, do: slow, rate: 20Mbit}]
`, 1.02},
		{"deaths", `
network: {generate: sites, sites: 2, hosts: 8, rate: 1Gbit, between: 100Mbit, between_delay: 5ms}
broadcast: {size: 100MB, piece: 512KiB, store: {at: s1}}
events: [{at: 7s, node: h10, do: die}, {at: 9s, node: h2, do: die}, {at: 9s, node: h12, do: stop}, {at: 50s, node: h12, do: resume}]
`, 1.10},
		{"one joins later", `
network: {generate: sites, sites: 2, hosts: 4, rate: 1Gbit, between: 100Mbit, between_delay: 5ms}
broadcast: {size: 100MB, piece: 512KiB, store: {at: s1}}
events: [{at: 20s, node: h6, do: join}]
`, 1.02},
	} {
		for _, algorithm := range Algorithms {
			if algorithm == steal.Flat {
				continue
			}
			s := parse(t, strings.Replace(tt.text, "broadcast: {", fmt.Sprintf("broadcast: {algorithm: %s, ", algorithm), 1))
			r := run(t, s)
			t.Logf("%s, %s: %.2f s, %.3f times the bound (by %s)", tt.name, algorithm, r.Makespan, *r.Ratio, r.By)
			if len(r.Entered) < 2 {
				t.Errorf("%s: sites %v", tt.name, r.Entered)
			}
			for _, e := range r.Entered {
				if ratio := float64(e.Bytes) / float64(s.Layout.Size); ratio > tt.most {
					t.Errorf("%s, %s: %.3f times the object entered %s, at most %.2f times may", tt.name, algorithm, ratio, e.Site, tt.most)
				}
			}
		}
	}
}
