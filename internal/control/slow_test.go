package control

import (
	"math"
	"strings"
	"testing"

	"github.com/freshet/freshet/unit"
)

func TestSlowStores(t *testing.T) {
	node := func(name string, bytes unit.Bytes, s float64) NodeStatus {
		return NodeStatus{Name: name, StoreBytes: bytes, StoreS: s}
	}
	const want = "its connection to the store gives 40 kB/s, and the others' 4 MB/s (median)"
	for _, tt := range []struct {
		name  string
		nodes []NodeStatus
		slow  bool // b
	}{
		{"a hundredth", []NodeStatus{node("a", 16e6, 4), node("b", 400e3, 10), node("c", 12e6, 3)}, true},
		{"a fifth", []NodeStatus{node("a", 16e6, 4), node("b", 800e3, 1), node("c", 12e6, 3)}, false},
		{"too early to say", []NodeStatus{node("a", 16e6, 4), node("b", 400, 0.5), node("c", 12e6, 3)}, false},
		{"alone", []NodeStatus{node("b", 400e3, 10)}, false},
		{"the others read nothing", []NodeStatus{node("a", 0, 0), node("b", 400e3, 10), node("c", 0, 3)}, false},
	} {
		slow := Job{Nodes: tt.nodes}.SlowStores()
		if said, named := slow["b"]; named != tt.slow || named && said != want || len(slow) > 1 {
			t.Errorf("%s: %q", tt.name, slow)
		}
	}
	s := bounded(NodeStatus{State: Running, StoreS: math.NaN(), PeerBytes: 3, CrossedBytes: 4}, 1)
	if s.CrossedBytes != 3 {
		t.Errorf("of 3 bytes from peers %d may have crossed", s.CrossedBytes)
	}
	if s := bounded(NodeStatus{State: Running, KeptSet: strings.Repeat("a\n", 100)}, 1); len(s.KeptSet) > 16 || strings.Contains(s.KeptSet, "\n") {
		t.Errorf("a node may say that it has kept %q", s.KeptSet)
	}
	if s.StoreS != 0 {
		t.Errorf("a node may say that it has read for %v s", s.StoreS)
	}
}
