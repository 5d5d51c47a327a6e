package control

import (
	"fmt"
	"slices"

	"github.com/freshet/freshet/unit"
)

// What counts as a slow connection to the store: less than a tenth of what the
// others get, seen for a second. Connections differ by far less where nothing is wrong.
const (
	slowBy    = 10
	slowAfter = 1.0 // seconds
)

// SlowStores says of each node whose connection to the store is slow how slow
// it is, beside the median of the others. It is not sure before they have read for a while.
func (j Job) SlowStores() map[string]string {
	slow := map[string]string{}
	for i, n := range j.Nodes {
		if n.StoreS < slowAfter {
			continue
		}
		var others []unit.Bandwidth
		for k, o := range j.Nodes {
			if k != i && o.StoreS > 0 && o.StoreBytes > 0 {
				others = append(others, o.storeRate())
			}
		}
		if len(others) == 0 {
			continue
		}
		slices.Sort(others)
		if median := others[len(others)/2]; n.storeRate() < median/slowBy {
			slow[n.Name] = fmt.Sprintf("its connection to the store gives %v, and the others' %v (median)", n.storeRate(), median)
		}
	}
	return slow
}

// storeRate is what its connection to the store gives while it reads.
func (s NodeStatus) storeRate() unit.Bandwidth {
	if s.StoreS <= 0 {
		return 0
	}
	return unit.Bandwidth(float64(s.StoreBytes) / s.StoreS)
}
