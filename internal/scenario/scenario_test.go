package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/form"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/sim"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

func parse(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := Parse([]byte(text), func(name string) ([]byte, error) { return os.ReadFile(filepath.Join("testdata", name)) })
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return s
}

// run runs a scenario that must end, with what must hold of every one.
func run(t *testing.T, s *Scenario) Result {
	t.Helper()
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var store, peers unit.Bytes
	for _, n := range r.Nodes {
		store += n.Store
		peers += n.Peers
		if n.Done != nil && n.Store+n.Peers < s.Layout.Size {
			t.Errorf("%s has the object, of %v, from %v of the store and %v of peers", n.Name, s.Layout.Size, n.Store, n.Peers)
		}
	}
	if store != r.Store || peers != r.Peers {
		t.Errorf("nodes have %v from the store and %v from peers, together %v and %v", store, peers, r.Store, r.Peers)
	}
	if r.Ratio != nil && *r.Ratio < 1-1e-6 {
		t.Errorf("faster than the bound: %v of %v (%s)", r.Makespan, *r.Bound, r.By)
	}
	if r.Fastest > r.Mean || r.Mean > r.Slowest || r.Slowest != r.Makespan {
		t.Errorf("fastest %g, mean %g, slowest %g, makespan %g", r.Fastest, r.Mean, r.Slowest, r.Makespan)
	}
	return r
}

func near(got, want, share float64) bool { return math.Abs(got-want) <= share*want }

// Every node reads the whole: the slowest connection sets the makespan, F / min r.
func TestFlat(t *testing.T) {
	r := run(t, parse(t, `
network: {generate: star, hosts: 8, rate: 1Gbit}
broadcast: {size: 100MB, algorithm: flat, store: {per_client: [8Mbit, 80Mbit], per_connection: 16Mbit}}
`))
	if !near(r.Makespan, 100, 1e-6) || !near(r.Fastest, 50, 1e-6) {
		t.Errorf("from %g to %g s, want 50 to 100", r.Fastest, r.Makespan)
	}
	if r.Store != 800*unit.Bytes(1e6) || r.Peers != 0 {
		t.Errorf("%v from the store, %v from peers", r.Store, r.Peers)
	}
}

// Chiba et al. 2010, section 4.1: at 10, 2 and 2 MB/s 300 MB take 10, 50 and 50 s in
// three shares, so the barrier is passed after 50 s. With stealing (4.2) the store gives
// all that it has until the end: 300 MB at 14 MB/s are 21.4 s.
func TestPaperExample(t *testing.T) {
	const text = `
network: {generate: star, hosts: 3, rate: 1000Gbit}
broadcast: {size: 300MiB, piece: 32KiB, algorithm: %s, store: {per_client: [10MiB/s, 2MiB/s, 2MiB/s]}%s}
`
	r := run(t, parse(t, fmt.Sprintf(text, "non-steal", "")))
	if r.Opened < 50 || r.Opened > 50.2 || r.Makespan < r.Opened || r.Makespan > 51 {
		t.Errorf("non-steal passes the barrier after %g s and ends after %g, want 50", r.Opened, r.Makespan)
	}
	for _, n := range r.Nodes {
		if n.Store != 100*unit.MiB {
			t.Errorf("non-steal: %s reads %v, want its share of 100 MiB", n.Name, n.Store)
		}
	}
	r = run(t, parse(t, fmt.Sprintf(text, "steal", ", per_work: 100")))
	last := 100 * 32 * 1024 / (2 * 1024 * 1024.) // a work at 2 MiB/s: nobody takes it from who has it in hand
	if ideal := 300. / 14; r.Opened < ideal || r.Opened > ideal+last+0.2 {
		t.Errorf("steal passes the barrier after %g s, want %g, at most one work more", r.Opened, ideal)
	}
	if r.Store != 300*unit.MiB {
		t.Errorf("steal: %v leave the store, want each byte once", r.Store)
	}
}

// A store that is narrow beside the nodes' links: each byte leaves it once.
func TestStarSteal(t *testing.T) {
	for _, neighbours := range []int{32, 8} { // all, or few: rumours instead
		r := run(t, parse(t, fmt.Sprintf(`
network: {generate: star, hosts: 24, rate: 1Gbit, delay: 50us}
broadcast: {size: 1GiB, neighbours: %d, store: {per_client: [60Mbit, 60Mbit, 10Mbit], per_connection: 30Mbit}}
`, neighbours)))
		if r.Store != unit.GiB {
			t.Errorf("%d neighbours: %v leave the store, want each byte once", neighbours, r.Store)
		}
		if most := unit.Bytes(23.5 * float64(unit.GiB)); r.Peers < 23*unit.GiB || r.Peers > most {
			t.Errorf("%d neighbours: %v from peers, want 23 GiB and not much that came twice", neighbours, r.Peers)
		}
		// Two phases: F / Σ r_i, and nearly F / d.
		phases := 8*float64(unit.GiB)/(16*30e6+8*10e6) + 8*float64(unit.GiB)/1e9
		if r.Makespan > 1.25*phases {
			t.Errorf("%d neighbours: %g s, want about the two phases' %g", neighbours, r.Makespan, phases)
		}
	}
}

// A swarm that streams ends close to its bound, with a store that is narrow (0.06 of a link for each node) or less so
// (0.25), with links that are alike or not, and each byte leaves the store once.
func TestStreamNearBound(t *testing.T) {
	for _, tt := range []struct {
		nodes, pieces int
		rate, store   string
		most          float64
	}{
		{32, 256, "1Gbit", "60Mbit", 1.10},                   // the first piece takes 17 times as long as at the link's rate: 0.066 are lost
		{32, 256, "1Gbit", "[60Mbit, 60Mbit, 10Mbit]", 1.12}, // who is slow has no second piece in hand once it has seen that another connection gains nothing: else 1.26
		{100, 256, "1Gbit", "60Mbit", 1.10},
		{100, 256, "1Gbit", "250Mbit", 1.05},
		{100, 256, "[1Gbit, 500Mbit]", "60Mbit", 1.10},
		{100, 256, "[1Gbit, 1Gbit, 1Gbit, 1Gbit, 1Gbit, 1Gbit, 1Gbit, 1Gbit, 1Gbit, 250Mbit]", "60Mbit", 1.10},
		{1000, 256, "1Gbit", "60Mbit", 1.12},
		{1000, 256, "1Gbit", "250Mbit", 1.08},
		{1000, 1024, "1Gbit", "60Mbit", 1.03},
	} {
		s := parse(t, fmt.Sprintf(`
network: {generate: star, hosts: %d, rate: %s, delay: 100us}
broadcast: {size: %dMiB, piece: 4MiB, algorithm: stream, store: {per_client: %s, total: 64Gbit}}
`, tt.nodes, tt.rate, 4*tt.pieces, tt.store))
		r := run(t, s)
		t.Logf("%+v: %.3f times the bound", tt, *r.Ratio)
		if *r.Ratio > tt.most {
			t.Errorf("%+v: %.3f times the bound", tt, *r.Ratio)
		}
		if r.Store != s.Layout.Size {
			t.Errorf("%+v: %v left the store, of an object of %v", tt, r.Store, s.Layout.Size)
		}
	}
}

// Where the store is wide and uplinks are narrow peers give a node less than the store would, and it reads what others have (steal.Twice): it is hardly slower
// than one that reads all for itself. Where peers fill links each byte leaves the store once, and it is not asked again for what a node that died would have given.
func TestWhatOthersHaveIsReadIfItPays(t *testing.T) {
	const text = `
network: {generate: star, hosts: 16, rate: %s}
broadcast: {size: 256MiB, algorithm: %s, store: {%s}}
`
	for _, tt := range []struct {
		rate, store string
		times       bool // more than one copy leaves the store
	}{
		{"20Mbit, rate_back: 100Mbit", "", true},
		{"20Mbit, rate_back: 100Mbit", "per_client: 50Mbit", true},
		{"100Mbit", "", false},
		{"100Mbit", "per_client: 25Mbit", false},
		{"20Mbit, rate_back: 100Mbit", "per_client: 5Mbit", false},
	} {
		stream, flat := run(t, parse(t, fmt.Sprintf(text, tt.rate, "stream", tt.store))), run(t, parse(t, fmt.Sprintf(text, tt.rate, "flat", tt.store)))
		t.Logf("rate %s, %s: stream %.1f s, flat %.1f s, %v leave the store", tt.rate, tt.store, stream.Makespan, flat.Makespan, stream.Store)
		if stream.Makespan > 1.1*flat.Makespan || tt.times != (stream.Store > 256*unit.MiB) {
			t.Errorf("rate %s, %s: stream takes %.1f s, flat %.1f s; %v leave the store", tt.rate, tt.store, stream.Makespan, flat.Makespan, stream.Store)
		}
	}
}

// Where it is the store's total that is narrow, as much as one link or some, nodes read in turn, and it is as near its bound; each byte leaves the store
// once. Where it is each client's share, waiting for turns costs next to nothing.
func TestStreamInTurn(t *testing.T) {
	for _, tt := range []struct {
		nodes int
		store string
		most  float64
	}{
		{100, "total: 95Mbit", 1.15}, // all at once: 1.39
		{100, "total: 95Mbit, delay: 20ms", 1.15},
		{100, "total: 400Mbit", 1.10},
		{100, "total: 95Mbit, per_client: [30Mbit, 60Mbit, 5Mbit]", 1.22},
		{100, "per_client: 6Mbit", 1.13},
		{100, "per_client: [6Mbit, 12Mbit, 2Mbit], total: 600Mbit", 1.15},
		{32, "total: 95Mbit", 1.10},
	} {
		s := parse(t, fmt.Sprintf(`
network: {generate: star, hosts: %d, rate: 100Mbit, delay: 100us}
broadcast: {size: 1GiB, piece: 4MiB, store: {%s}}
`, tt.nodes, tt.store))
		r := run(t, s)
		t.Logf("%+v: %.3f times the bound", tt, *r.Ratio)
		if *r.Ratio > tt.most {
			t.Errorf("%+v: %.3f times the bound", tt, *r.Ratio)
		}
		if r.Store != s.Layout.Size {
			t.Errorf("%+v: %v left the store, of an object of %v", tt, r.Store, s.Layout.Size)
		}
	}
}

// A node asks for works while it reads the last that it has: so it reads all the time, though
// question and answer take longer than half of what one work does.
func TestThievesAskEarly(t *testing.T) {
	s := parse(t, `
network: {generate: star, hosts: 3, rate: 1Gbit, delay: 150ms}
broadcast: {size: 96MiB, piece: 1MiB, store: {per_client: [10Mbit, 2Mbit, 2Mbit]}}
`)
	r := run(t, s)
	t.Logf("%.3f times the bound", *r.Ratio)
	if *r.Ratio > 1.12 { // a slow node takes 0.07 of the bound for one work; if nobody asked early: 1.3
		t.Errorf("%.3f times the bound", *r.Ratio)
	}
	if r.Store != s.Layout.Size {
		t.Errorf("%v left the store, of an object of %v", r.Store, s.Layout.Size)
	}
}

// A thief is given what it ends sooner than its owner would. Else nodes that are slow at the store ask early, too, get works from a fast one that
// are back with it only when it has nothing left, after two messages each, and sometimes begin them. In the mean over sizes, since
// who has what in the end is chance.
func TestThievesGetWhatTheyEndSooner(t *testing.T) {
	mean := 0.0
	for size := 40; size < 56; size++ {
		r := run(t, parse(t, fmt.Sprintf(`
network: {generate: star, hosts: 4, rate: 1Gbit, delay: 150ms}
broadcast: {size: %dMiB, piece: 1MiB, store: {per_client: [20Mbit, 1Mbit, 1Mbit, 1Mbit]}}
`, size)))
		mean += *r.Ratio / 16
	}
	t.Logf("%.3f times the bound", mean)
	if mean > 1.65 { // half of the owner's list, whoever asks: 1.83
		t.Errorf("%.3f times the bound", mean)
	}
}

// A node that is ahead of others gets half of what they get over links that they share, until it is not ahead any more.
func TestWhoIsAheadYields(t *testing.T) {
	w, err := parse(t, `
network: {generate: star, hosts: 4, rate: 100Mbit}
broadcast: {size: 800MiB, piece: 1MiB, store: {per_client: 1Mbit}}
`).world(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := &w.nodes[0]
	for p := range w.Layout.Count() {
		n.ex.Got(p)
	}
	for rank, has := range []int{700, 682, 680} {
		w.link(0, rank)
		n.ex.Announced(rank, piece.Range{Lo: 0, Hi: has})
		w.requested(0, rank, exchange.Request{Piece: 700, Lo: 0, Hi: w.Layout.Blocks(700)})
	}
	w.begin(0)
	rates := func(after float64) (rs [3]float64) {
		const nothing = -1 // an answer that nobody waits for
		w.after(after, event{kind: evGiveUp, peer: nothing})
		for {
			ev, ok := w.sim.Next()
			if !ok {
				t.Fatal("nothing happens any more")
			}
			if w.happen(ev); ev.Flow == sim.None && ev.Timer.peer == nothing {
				break
			}
		}
		for rank := range rs {
			p := n.peers[rank]
			rs[rank] = w.sim.Rate(w.conns[w.nodes[p.node].peers[p.mine].in].flow)
		}
		return rs
	}
	if r := rates(0.01); !near(r[0], r[1], 1e-9) || !near(r[1], r[2], 1e-9) {
		t.Errorf("nobody was looked at yet, and they get %v", r)
	}
	if r := rates(0.06); !near(2*r[0], r[1], 1e-9) || !near(r[1], r[2], 1e-9) {
		t.Errorf("the first is ahead, and they get %v", r)
	}
	for rank := range 3 {
		n.ex.Announced(rank, piece.Range{Lo: 0, Hi: 700})
	}
	if r := rates(0.05); !near(r[0], r[1], 1e-9) || !near(r[1], r[2], 1e-9) {
		t.Errorf("all have as much, and they get %v", r)
	}
}

// A node that dies or stops while it is its turn, or while it waits for it, keeps nobody waiting for long.
func TestDeathsInTurn(t *testing.T) {
	const text = `
network: {generate: star, hosts: 40, rate: 100Mbit, delay: 100us}
broadcast: {size: 512MiB, piece: 4MiB, store: {total: 95Mbit}}
events: [%s]
`
	usual := run(t, parse(t, fmt.Sprintf(text, "")))
	r := run(t, parse(t, fmt.Sprintf(text, "{at: 3s, node: h1, do: die}, {at: 4s, node: h21, do: stop}, {at: 9s, node: h21, do: resume}, {at: 6s, node: h40, do: die}, {at: 7s, node: h3, do: stop}")))
	if r.Finished != 37 || r.Makespan > 1.3*usual.Makespan+23 {
		t.Errorf("%d of 37 nodes finish, after %.1f s, and %.1f if all live", r.Finished, r.Makespan, usual.Makespan)
	}
}

// The scenarios that the documentation has run; large ones with a small object.
func TestDocumented(t *testing.T) {
	files, err := filepath.Glob("../../docs/scenarios/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			s, err := Read(name)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Network.Hosts) > 100 {
				s.Layout.Size = 16 * s.Layout.Piece
			}
			dead := 0
			for _, e := range s.Events {
				if e.Do == Die {
					dead++
				}
			}
			if r := run(t, s); r.Finished != len(s.Network.Hosts)-dead || r.Ratio == nil {
				t.Errorf("%d of %d nodes finish, ratio %v", r.Finished, len(s.Network.Hosts), r.Ratio)
			}
		})
	}
}

// What two sites share crosses a thin link: the bound knows it.
func TestSites(t *testing.T) {
	r := run(t, parse(t, `
network: {generate: sites, sites: 2, hosts: 4, rate: 1Gbit, between: 100Mbit, between_delay: 5ms}
broadcast: {size: 100MB, store: {at: s1}}
`))
	if !near(*r.Bound, 8, 1e-6) || r.By != "what enters site site2" {
		t.Errorf("bound %g by %s, want 8 s by what enters site2", *r.Bound, r.By)
	}
}

func TestTopologyFile(t *testing.T) {
	r := run(t, parse(t, `
network: {file: tree.yaml}
broadcast: {size: 16MiB, store: {at: origin}}
`))
	if len(r.Nodes) != 3 || r.Nodes[0].Name != "a" {
		t.Errorf("nodes %+v, want a, b, c: where the store is there is no node", r.Nodes)
	}
	if r.By != "downlink" {
		t.Errorf("bound by %s", r.By)
	}
}

// GraphML is read as everywhere, with a host at each node.
func TestTopologyOfTheZoo(t *testing.T) {
	r := run(t, parse(t, `
network: {file: ../../../topo/testdata/zoo/Abilene.graphml}
broadcast: {size: 16MiB, store: {per_client: 100Mbit}}
`))
	if len(r.Nodes) != 11 || r.Finished != 11 || r.Nodes[0].Name != "New-York.1" {
		t.Errorf("%d of %d nodes have it, the first of them %s, want 11 of 11 and New-York.1", r.Finished, len(r.Nodes), r.Nodes[0].Name)
	}
}

// The same seed gives the same, to the last bit; another does not.
func TestDeterminism(t *testing.T) {
	text := func(seed int) string {
		s := parse(t, fmt.Sprintf(`
seed: %d
network: {generate: star, hosts: 60, rate: [1Gbit, 300Mbit], delay: 1ms}
broadcast: {size: 256MiB, piece: 1MiB, neighbours: 12, store: {per_client: paper*5}}
events: [{at: 1s, node: h7, do: die}, {at: 2s, node: h8, do: slow, rate: 100Mbit}]
`, seed))
		b, err := json.Marshal(run(t, s))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	a := text(1)
	if b := text(1); a != b {
		t.Errorf("one seed, two results:\n%s\n%s", a, b)
	}
	if text(2) == a {
		t.Error("two seeds, one result")
	}
}

// Shares that are computed with a tolerance come to what exact ones come to. Who is served by whom
// differs as soon as anything does, so single makespans do by some percent; means over seeds do not. With one host more that tolerance is what there is.
func TestToleranceAgainstExact(t *testing.T) {
	const seeds = 24
	average := func(within float64) (makespan, mean float64) {
		for seed := range seeds {
			s := parse(t, fmt.Sprintf(`
seed: %d
network: {generate: star, hosts: 100, rate: [1Gbit, 1Gbit, 500Mbit], delay: 50us}
broadcast: {size: 512MiB, piece: 4MiB, store: {per_client: [60Mbit, 60Mbit, 10Mbit], total: 4Gbit}}
`, seed))
			s.Tolerance = within
			r := run(t, s)
			makespan += r.Makespan / seeds
			mean += r.Mean / seeds
		}
		return makespan, mean
	}
	for hosts, want := range map[int]float64{exactHosts: 0, exactHosts + 1: tolerance} {
		w, err := parse(t, fmt.Sprintf("network: {generate: star, hosts: %d, rate: 1Gbit}\nbroadcast: {size: 1MiB}", hosts)).world(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := w.sim.Tolerance; got != want {
			t.Errorf("%d hosts: tolerance %g, want %g", hosts, got, want)
		}
	}
	makespan, mean := average(0)
	roughly, roughMean := average(tolerance)
	t.Logf("makespan %.4g and mean %.4g, exactly %.4g and %.4g", roughly, roughMean, makespan, mean)
	if !near(roughly, makespan, 0.02) || !near(roughMean, mean, 0.01) {
		t.Errorf("makespan %g and mean %g, exactly %g and %g", roughly, roughMean, makespan, mean)
	}
}

const faulty = `
network: {generate: star, hosts: 12, rate: 200Mbit, delay: 100us}
broadcast: {size: 128MiB, piece: 1MiB, algorithm: %s, neighbours: %d, store: {per_client: 16Mbit}}
events: %s
`

func TestEvents(t *testing.T) {
	for _, neighbours := range []int{11, 6} {
		at := func(algorithm, events string) Result {
			return run(t, parse(t, fmt.Sprintf(faulty, algorithm, neighbours, events)))
		}
		usual := at("steal", "[]")

		died := at("steal", "[{at: 2s, node: h5, do: die}]")
		if n := died.Nodes[4]; n.Done != nil || died.Finished != 11 {
			t.Errorf("h5 died, and %d nodes finish", died.Finished)
		}
		// What only it had is read again, and it had begun.
		if died.Store <= 128*unit.MiB || died.Store > 136*unit.MiB {
			t.Errorf("a node died: %v leave the store", died.Store)
		}
		if died.Makespan < usual.Makespan {
			t.Errorf("a node died: %g s, usually %g", died.Makespan, usual.Makespan)
		}
		end := usual.Makespan - 2 // in the exchange: others have all pieces
		late := at("steal", fmt.Sprintf("[{at: %gs, node: h5, do: die}]", end))
		if late.Finished != 11 || late.Store != 128*unit.MiB {
			t.Errorf("a node died in the exchange: %d nodes finish, %v leave the store", late.Finished, late.Store)
		}

		stopped := at("steal", "[{at: 2s, node: h5, do: stop}, {at: 12s, node: h5, do: resume}]")
		if stopped.Finished != 12 || stopped.Store != 128*unit.MiB {
			t.Errorf("a node stopped for 10 s: %d finish, %v leave the store", stopped.Finished, stopped.Store)
		}
		if long := at("steal", "[{at: 2s, node: h5, do: stop}, {at: 24s, node: h5, do: resume}]"); long.Finished != 12 {
			t.Errorf("a node stopped for 22 s: %d finish", long.Finished)
		}
		gone := at("steal", "[{at: 2s, node: h5, do: stop}, {at: 60s, node: h5, do: resume}]")
		if gone.Finished != 11 || gone.Makespan < 25 {
			t.Errorf("a node stopped for 58 s: %d finish after %g s; it is given up after 25", gone.Finished, gone.Makespan)
		}

		joined := at("steal", "[{at: 11s, node: h5, do: join}]")
		if n := joined.Nodes[4]; n.Done == nil || n.Store != 0 || *n.Done < 11+128*8*1.048576/200 {
			t.Errorf("h5 joined after 11 s: %+v", n)
		}
		if slow := at("steal", "[{at: 3s, node: h5, do: slow, rate: 20Mbit}]"); slow.Makespan < 30 || slow.Finished != 12 {
			t.Errorf("a node has a tenth of its rate: %g s", slow.Makespan)
		}
		if flat := at("flat", "[{at: 2s, node: h5, do: die}, {at: 3s, node: h6, do: stop}, {at: 5s, node: h6, do: resume}, {at: 1s, node: h7, do: join}]"); flat.Finished != 11 ||
			!near(*flat.Nodes[5].Done-*flat.Nodes[3].Done, 2, 1e-6) || !near(*flat.Nodes[6].Done-*flat.Nodes[3].Done, 1, 1e-6) {
			t.Errorf("flat: %d finish; h4 at %g, h6, which was stopped for 2 s, at %g, h7, which came 1 s later, at %g", flat.Finished, *flat.Nodes[3].Done, *flat.Nodes[5].Done, *flat.Nodes[6].Done)
		}
	}
}

// Half the nodes die, one after the other: the others still get all.
func TestManyDeaths(t *testing.T) {
	for seed := range 6 {
		events := "["
		for k := range 12 {
			events += fmt.Sprintf("{at: %dms, node: h%d, do: die},", 700*k+100*seed, 1+2*k)
		}
		s := parse(t, fmt.Sprintf(`
seed: %d
network: {generate: star, hosts: 24, rate: 100Mbit}
broadcast: {size: 32MiB, piece: 256KiB, neighbours: %d, store: {per_client: [8Mbit, 4Mbit]}}
events: %s]
`, seed, 8+16*(seed%2), events))
		for i, n := range run(t, s).Nodes {
			if i%2 == 1 && n.Done == nil { // h2, h4, …
				t.Errorf("seed %d: %s lives, and does not finish", seed, n.Name)
			}
		}
	}
}

func TestNoWay(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		// As it goes: nothing arrives any more, or not within a month.
		{"network: {generate: star, hosts: 2, rate: [1Gbit, 0], rate_back: 1Gbit}\nbroadcast: {size: 1MiB}", "the broadcast does not end: 1 node lacks pieces, such as h1, which has "}, // what h2 reads it can give to nobody
		{"network: {generate: star, hosts: 2, rate: 1Gbit}\nbroadcast: {size: 1MiB, algorithm: flat, store: {per_connection: 1bit}}", "the broadcast does not end: 2 nodes lack pieces, such as h1, which has 2 of 8"},
		{"network: {generate: star, hosts: 2, rate: 1Gbit}\nbroadcast: {size: 1MiB, store: {per_connection: 0.1bit}}", "the broadcast does not end: 2 nodes lack pieces, such as h1, which has 0 of 8"},
		{"network: {file: parts.yaml}\nbroadcast: {size: 1MiB}", "there is no way from"},
		{"network: {file: parts.yaml}\nbroadcast: {size: 1MiB, algorithm: flat, store: {at: s0}}", "there is no way from the store at s0 to b"},

		// Before it begins: some node can never have it, or the bound says that it takes too long.
		{"network: {generate: star, hosts: 2, rate: [1Gbit, 0]}\nbroadcast: {size: 1MiB}", "h2 can never have the object: towards it the rate of its links is 0"},
		{"network: {generate: star, hosts: 2, rate: [1Gbit, 0]}\nbroadcast: {size: 1MiB}\nevents: [{at: 1s, node: h1, do: die}, {at: 1s, node: h2, do: slow, rate: 0}]", "h2 can never have the object"},
		{"network: {generate: sites, sites: 2, hosts: 2, rate: 1Gbit, between: 1Gbit, between_back: 0}\nbroadcast: {size: 1MiB, store: {at: s1}}", "nobody in site site2 can ever have the object: the rate of what enters it is 0"},
		{"network: {generate: sites, sites: 2, hosts: 2, rate: 1Gbit, between: 0, between_back: 1Gbit}\nbroadcast: {size: 1MiB, store: {at: s1}}", "nobody outside site site1 can ever have the object: the rate of what leaves it is 0"},
		{"network: {generate: star, hosts: 1000, rate: 1kbit}\nbroadcast: {size: 1GiB}", "at these rates it takes 99 days at least (set by: downlink), and 30 are the most that are simulated"},
		{"network: {generate: star, hosts: 2, rate: 1kbit}\nbroadcast: {size: 1GiB}\nevents: [{at: 1s, node: h1, do: die}, {at: 1s, node: h2, do: slow, rate: 2kbit}]", "at these rates it takes 50 days at least (set by: downlink)"},
		{"network: {generate: star, hosts: 2, rate: 1Gbit}\nbroadcast: {size: 1MiB, algorithm: flat, store: {per_client: 1bit}}", "at these rates it takes 49 days at least (set by: store)"},
		{"network: {generate: star, hosts: 2, rate: 1Gbit}\nbroadcast: {size: 1GiB, store: {total: 0.01bit}}", "at these rates it takes more than a million days at least (set by: store)"},
		{"network: {generate: sites, sites: 2, hosts: 2, rate: 1Gbit, between: 1kbit}\nbroadcast: {size: 1GiB, store: {at: s1}}", "at these rates it takes 99 days at least (set by: what enters site site2)"},
	} {
		if _, err := parse(t, c.text).Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n\tgot  %v\n\twant %s", c.text, err, c.want)
		}
	}
}

// What would not end, but for what happens meanwhile, is simulated.
func TestWayThatOpens(t *testing.T) {
	for events, finished := range map[string]int{
		"{at: 1s, node: h2, do: slow, rate: 1Gbit}": 2, // it was slower before
		"{at: 1s, node: h2, do: die}":               1,
		"{at: 1s, node: h2, do: stop}, {at: 2s, node: h2, do: resume}, {at: 3s, node: h2, do: die}": 1,
	} {
		r := run(t, parse(t, "network: {generate: star, hosts: 2, rate: [1Gbit, 0]}\nbroadcast: {size: 1MiB}\nevents: ["+events+"]"))
		if r.Finished != finished {
			t.Errorf("%s: %d nodes have it, want %d", events, r.Finished, finished)
		}
	}
}

// A scenario may wait for weeks for somebody to join, which takes no longer than what happens.
func TestWaitsForWeeksAreShort(t *testing.T) {
	for network, hosts := range map[string]int{
		"generate: star, hosts: 50":                            50,
		"generate: star, hosts: 33":                            33, // everybody knows everybody
		"generate: sites, sites: 3, hosts: 20, between: 1Gbit": 60,
	} {
		w, err := parse(t, `
network: {`+network+`, rate: 1Gbit}
broadcast: {size: 64MiB, piece: 1MiB, store: {per_client: 100Mbit}}
events: [{at: 696h, node: h7, do: join}]`).world(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r, err := w.run(t.Context())
		if err != nil || r.Finished != hosts || r.Makespan < 696*3600 || r.Makespan > 696*3600+60 {
			t.Errorf("%s: %d nodes have it after %v s, %v", network, r.Finished, r.Makespan, err)
		}
		t.Logf("%s: %d events", network, w.steps)
		if w.steps > 1e6 {
			t.Errorf("%s: it took %d events", network, w.steps)
		}
	}
}

// What bounds a broadcast is what there was: who died has given before, and a link has been as wide as it ever was. run holds every ratio against 1.
func TestBoundCountsWhatThereWas(t *testing.T) {
	for name, c := range map[string]struct {
		text     string
		from, to float64 // seconds
	}{
		"the one that reads fast dies": {`
network: {generate: star, hosts: 2, rate: 1Gbit}
broadcast: {size: 100MB, store: {per_client: [80Mbit, 8Mbit]}}
events: [{at: 8s, node: h1, do: die}]`, 9, 11}, // 11 MB/s from the store
		"a link gets wider": {`
network: {generate: star, hosts: 1, rate: 8Mbit}
broadcast: {size: 100MB, algorithm: flat}
events: [{at: 1s, node: h1, do: slow, rate: 1Gbit}]`, 0.7, 0.9},
		"it was wider at first": {`
network: {generate: star, hosts: 1, rate: 1Gbit}
broadcast: {size: 100MB, algorithm: flat}
events: [{at: 10ms, node: h1, do: slow, rate: 8Mbit}]`, 0.7, 0.9},
		"of many hosts, two join when rates were dealt out": {`
network: {generate: star, hosts: 101, rate: 1kbit, rate_back: 1Gbit}
broadcast: {size: 100MB, algorithm: flat, store: {total: 1Gbit}}
events: [{at: 1ms, node: h100, do: join}, {at: 1ms, node: h101, do: join}]`, 80, 81},
		"it gets wider when all is over": {`
network: {generate: star, hosts: 1, rate: 8Mbit}
broadcast: {size: 100MB, algorithm: flat}
events: [{at: 200s, node: h1, do: slow, rate: 1Gbit}]`, 99, 101},
	} {
		t.Run(name, func(t *testing.T) {
			if r := run(t, parse(t, c.text)); *r.Bound < c.from || *r.Bound > c.to {
				t.Errorf("the bound is %v s, by %s; want %v to %v; it took %v", *r.Bound, r.By, c.from, c.to, r.Makespan)
			}
		})
	}
}

// Links as wide as can be written down carry what they say.
func TestVeryWideLinks(t *testing.T) {
	r := run(t, parse(t, `
network: {generate: star, hosts: 4, rate: 1000000Tbit}
broadcast: {size: 1TiB, piece: 16MiB, algorithm: flat, store: {total: 400000Tbit}}`))
	if *r.Ratio > 4.001 {
		t.Errorf("four copies from the store took %.2f times as long as one", *r.Ratio)
	}
}

// A link that carries next to nothing, less than a file may say, holds up nobody who simulates: its flows weigh what they ever do.
func TestLinkThatHardlyCarries(t *testing.T) {
	for name, hardly := range map[string]func(*Scenario){
		"from the beginning": func(s *Scenario) { s.Network.Links[0].Rate, s.Events = 1e-305, nil },
		"later":              func(s *Scenario) { s.Events[0].Rate = 1e-305 },
	} {
		s := parse(t, `
network: {generate: star, hosts: 4, rate: 1Gbit, rate_back: [1Gbit, 1Gbit, 970Mbit, 970Mbit]}
broadcast: {size: 1GiB, piece: 4MiB}
events: [{at: 1s, node: h1, do: slow, rate: 1kbit}]
`)
		hardly(s)
		r, err := s.Run(t.Context())
		if err == nil && !(r.Makespan > 0) || err != nil && !strings.Contains(err.Error(), "the broadcast does not end") {
			t.Errorf("%s: it takes %v s, %v", name, r.Makespan, err)
		}
	}
}

// chain is so many switches in a row, with a host on each.
func chain(n int) []byte {
	var hosts, switches, links []string
	for i := 1; i <= n; i++ {
		hosts, switches = append(hosts, fmt.Sprintf("{name: h%d}", i)), append(switches, fmt.Sprintf("s%d", i))
		links = append(links, fmt.Sprintf("{a: h%d, b: s%[1]d, rate: 1Gbit}", i))
		if i > 1 {
			links = append(links, fmt.Sprintf("{a: s%d, b: s%d, rate: 1Gbit}", i-1, i))
		}
	}
	return fmt.Appendf(nil, "hosts: [%s]\nswitches: [%s]\nlinks: [%s]\n", strings.Join(hosts, ", "), strings.Join(switches, ", "), strings.Join(links, ", "))
}

// along is a broadcast of 1 MiB along a chain of 100 switches.
func along(t *testing.T, broadcast string) *Scenario {
	t.Helper()
	s, err := Parse([]byte("network: {file: chain.yaml}\nbroadcast: {size: 1MiB, "+broadcast+"}"), func(string) ([]byte, error) { return chain(100), nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What ways take is counted before any is made: those from the store over each connection, and those between neighbours.
func TestLongWaysAreRefused(t *testing.T) {
	const fromEnd = 100*101/2 + 2*100 // 1 to 100 links, and what the store gives to all, and to each
	for _, c := range []struct {
		broadcast string
		room      int
		fits      bool
	}{
		{"algorithm: flat, store: {at: s1}", fromEnd, true},
		{"algorithm: flat, store: {at: s1}", fromEnd - 1, false},
		{"algorithm: flat", 3 * 100, true},
		{"algorithm: flat", 3*100 - 1, false},
		{"algorithm: non-steal", 1000, false}, // 300 from the store
		{"algorithm: non-steal", 100_000, true},
		{"algorithm: stream, store: {at: s1}", steal.MostStreams*fromEnd - 1, false},
	} {
		w := along(t, c.broadcast).empty()
		if w.room < 100_000_000 || w.room > math.MaxInt32 {
			t.Errorf("%s: there is room for %d links", c.broadcast, w.room)
		}
		w.room = c.room
		err := w.build(t.Context())
		if c.fits && err != nil || !c.fits && (err == nil || !strings.Contains(err.Error(), "the ways to 100 hosts are long: that would take more than 16 GiB of memory")) {
			t.Errorf("%s, room for %d links: got %v", c.broadcast, c.room, err)
		}
	}
}

// fading is a context that ends once it has been asked so often.
type fading struct {
	context.Context
	asks int
}

func (f *fading) Err() error {
	if f.asks--; f.asks < 0 {
		return context.Canceled
	}
	return nil
}

// A world that is not wanted any more is not built to its end, whatever part of it is.
func TestBuildingEndsWithItsContext(t *testing.T) {
	for _, broadcast := range []string{"algorithm: flat, store: {at: s1}", "algorithm: stream, store: {at: s1}"} {
		for _, asks := range []int{0, 50, 150, 250} {
			if _, err := along(t, broadcast).world(&fading{t.Context(), asks}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, after %d looks: got %v", broadcast, asks, err)
			}
		}
		if _, err := along(t, broadcast).world(t.Context()); err != nil {
			t.Errorf("%s: %v", broadcast, err)
		}
	}
}

// Where nothing moves for days, but something is on its way or is to happen, it is waited for.
func TestLongWaitsEnd(t *testing.T) {
	for _, c := range []struct {
		text        string
		least, most float64 // days
	}{
		{"network: {generate: star, hosts: 2, rate: 1Gbit}\nbroadcast: {size: 1MiB}\nevents: [{at: 30h, node: h2, do: join}]", 1.25, 1.5},
		{"network: {generate: star, hosts: 2, rate: 1Gbit}\nbroadcast: {size: 1MiB, piece: 1MiB, algorithm: flat, store: {per_client: 20bit}}", 4, 5},
		{"network: {generate: star, hosts: 2, rate: 1Gbit}\nbroadcast: {size: 1MiB, piece: 1MiB, store: {per_client: 2kbit}}", 0.048, 0.05},
		{"network: {generate: star, hosts: 2, rate: 1Gbit}\nbroadcast: {size: 1MiB, algorithm: steal, store: {delay: 1h}}", 0.075, 0.75},
		{"network: {generate: star, hosts: 2, rate: 1Gbit, delay: 1h}\nbroadcast: {size: 1MiB, algorithm: steal}", 0.075, 0.75},
	} {
		if r := run(t, parse(t, c.text)); r.Finished != 2 || r.Makespan < c.least*24*3600 || r.Makespan > c.most*24*3600 {
			t.Errorf("%s: %d of 2 nodes have it after %.1f days, want %g to %g", c.text, r.Finished, r.Makespan/24/3600, c.least, c.most)
		}
	}
}

func BenchmarkBroadcast(b *testing.B) {
	for _, nodes := range []int{100, 1000, 10000} {
		for _, algorithm := range steal.Algorithms {
			b.Run(fmt.Sprintf("%s/%d", algorithm, nodes), func(b *testing.B) {
				text := fmt.Sprintf("network: {generate: star, hosts: %d, rate: 1Gbit, delay: 50us}\nbroadcast: {size: 1GiB, piece: 4MiB, algorithm: %s, store: {per_client: 60Mbit}}\n", nodes, algorithm)
				for b.Loop() {
					s, err := Parse([]byte(text), nil)
					if err != nil {
						b.Fatal(err)
					}
					r, err := s.Run(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(*r.Ratio, "ratio")
				}
			})
		}
	}
}

const example = `seed: 1
network: {generate: star, hosts: 10, rate: 1Gbit}
broadcast: {size: 1GiB, piece: 4MiB, algorithm: steal, store: {total: 64Gbit, per_client: [60Mbit, 60Mbit, 10Mbit], per_connection: 30Mbit}}
events: [{at: 3s, node: h7, do: die}, {at: 5s, node: h8, do: slow, rate: 10Mbit}]
`

func TestParse(t *testing.T) {
	s := parse(t, example)
	if len(s.Network.Hosts) != 10 || s.Layout != (piece.Layout{Size: unit.GiB, Piece: 4 * unit.MiB}) || s.Algorithm != steal.Steal {
		t.Errorf("%+v", s)
	}
	if s.Store.Total != 64*unit.Gbit || s.Store.PerClient[2] != 10*unit.Mbit || s.Store.PerClient[3] != 60*unit.Mbit || s.Store.PerConnection[9].Mean() != 30*unit.Mbit {
		t.Errorf("%+v", s.Store)
	}
	if len(s.Events) != 2 || s.Events[1].Host != 7 || s.Events[1].Rate != 10*unit.Mbit || s.Events[0].Do != Die {
		t.Errorf("%+v", s.Events)
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"hosts: 10", "hosts: 0", `line 2: network.hosts: "0": want a whole number from 1 to 100000`},
		{"hosts: 10", "nodes: 10", `line 2: network: unknown key "nodes"`},
		{"hosts: 10, ", "", `line 2: network: hosts is missing`},
		{"hosts: 10", "hosts: 10, sites: 2", `line 2: network: unknown key "sites"`},
		{"generate: star", "generate: ring", `line 2: network.generate: "ring": want star, sites`},
		{"generate: star, hosts: 10, rate: 1Gbit", "file: none.yaml", `line 2: network.file: "none.yaml": `},
		{"generate: star, hosts: 10, rate: 1Gbit", "file: testdata/wrong.graphml", `line 2: network.file: "testdata/wrong.graphml": topology: line 2: want graphml, not "graph"`},
		{"rate: 1Gbit", "rate: 1", `line 2: network.rate: rate "1": want`},
		{"rate: 1Gbit", "rate: []", `line 2: network.rate: the list is empty`},
		{"rate: 1Gbit", "rate: 2000000Tbit", `line 2: network.rate: is more than 1000000 Tbit`},
		{"rate: 1Gbit", "rate: 1e-305B/s", `line 2: network.rate: is less than 0.001 B/s, and not 0`},
		{"rate: 1Gbit", "rate: [1Gbit, 1e-305B/s]", `line 2: network.rate[1]: is less than 0.001 B/s, and not 0`},
		{"rate: 1Gbit", "rate: 1Gbit, rate_back: 0.0009B/s", `line 2: network.rate_back: is less than 0.001 B/s, and not 0`},
		{"rate: 1Gbit", "rate: [1Gbit, 2000000Tbit]", `line 2: network.rate[1]: is more than 1000000 Tbit`},
		{"rate: 1Gbit", "rate: 1Gbit, rate_back: 2000000Tbit", `line 2: network.rate_back: is more than 1000000 Tbit`},
		{"rate: 1Gbit", "rate: 1Gbit, delay: 2000000h", `line 2: network.delay: is more than an hour`},
		{"generate: star, hosts: 10", "generate: sites, sites: 2, hosts: 10, between: 2000000Tbit", `line 2: network.between: is more than 1000000 Tbit`},
		{"generate: star, hosts: 10", "generate: sites, sites: 2, hosts: 10, between: 1Gbit, between_back: 2000000Tbit", `line 2: network.between_back: is more than 1000000 Tbit`},
		{"generate: star, hosts: 10", "generate: sites, sites: 2, hosts: 10, between: 1Gbit, between_delay: 61m", `line 2: network.between_delay: is more than an hour`},
		{"total: 64Gbit", "total: 2000000Tbit", `line 3: broadcast.store.total: is more than 1000000 Tbit`},
		{"total: 64Gbit", "delay: 2000000h", `line 3: broadcast.store.delay: is more than an hour`},
		{"total: 64Gbit", "total: 1e-305B/s", `line 3: broadcast.store.total: is less than 0.001 B/s, and not 0`},
		{"rate: 10Mbit", "rate: 1e-305B/s", `line 4: events[1].rate: is less than 0.001 B/s, and not 0`},
		{"rate: 10Mbit", "rate: 2000000Tbit", `line 4: events[1].rate: is more than 1000000 Tbit`},
		{"size: 1GiB", "size: 0", `line 3: broadcast.size: there is nothing to move`},
		{"size: 1GiB, ", "", `line 3: broadcast: size is missing`},
		{"piece: 4MiB", "piece: 32MiB", `line 3: broadcast.piece: 32 MiB: a piece is from 1 B to 16 MiB`},
		{"piece: 4MiB", "piece: 1B", `line 3: broadcast.size: more than the 1048576 pieces that can be simulated, of 1 B`},
		{"algorithm: steal", "algorithm: fast", `line 3: broadcast.algorithm: "fast": want flat, non-steal, steal`},
		{"per_connection: 30Mbit", "per_conection: 30Mbit", `line 3: broadcast.store: unknown key "per_conection"`},
		{"per_connection: 30Mbit", "per_connection: papers", `line 3: broadcast.store.per_connection: rates "papers"`},
		{"per_connection: 30Mbit", "at: s9", `line 3: broadcast.store.at: there is no host or switch "s9"`},
		{"node: h7", "node: h11", `line 4: events[0].node: there is no node "h11"`},
		{"node: h7", "node: h7, hosts: 1", `line 4: events[0]: unknown key "hosts"`},
		{"do: die", "do: vanish", `line 4: events[0].do: "vanish": want die, stop, resume, join, slow`},
		{"do: die", "do: die, rate: 1Mbit", `line 4: events[0].rate: only slow has a rate`},
		{", rate: 10Mbit", "", `line 4: events[1]: rate is missing`},
		{"at: 3s", "at: 3", `line 4: events[0].at: "3": want a time`},
		{"events: [", "events: [{at: 4s, node: h7, do: join}, ", `line 4: events[1]: h7 is not there before it joins at 4s, and nobody comes back who was`},
		{"events: [", "events: [{at: 4s, node: h6, do: stop}, {at: 4s, node: h6, do: join}, ", `line 4: events[0]: h6 is not there before it joins at 4s`},
		{"seed: 1", "seed: -1", `line 1: seed: "-1": want a whole number`},
		{"seed: 1", "speed: 1", `line 1: unknown key "speed"; there are seed, network, broadcast, events`},
	} {
		_, err := Parse([]byte(strings.Replace(example, c.old, c.new, 1)), os.ReadFile)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s for %s:\n\tgot  %v\n\twant %s", c.new, c.old, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"seed: 1": "network is missing",
		"network: {generate: star, hosts: 100000, rate: 1Gbit}\nbroadcast: {size: 1GiB, piece: 4MiB}":                                                  `line 2: broadcast.size: 256 pieces at each of 100000 hosts: that would take up to 243.62 GiB of memory, and 16 GiB are the most; want fewer hosts:`,
		"network: {generate: star, hosts: 1000, rate: 1Gbit}\nbroadcast: {size: 1GiB, piece: 1KiB}":                                                    `line 2: broadcast.size: 1048576 pieces at each of 1000 hosts: that would take up to 36.28 GiB of memory, and 16 GiB are the most; want fewer hosts:, a larger piece: or a smaller size:`,
		"network: {generate: star, hosts: 20000, rate: 1Gbit}\nbroadcast: {size: 1GiB, piece: 4MiB, neighbours: 1000}":                                 `256 pieces at each of 20000 hosts: that would take up to `,
		"network: {generate: sites, sites: 100, hosts: 200, rate: 1Gbit, between: 1Gbit}\nbroadcast: {size: 1GiB, piece: 4MiB}":                        `256 pieces at each of 20000 hosts: that would take up to `,
		"network: {generate: star, hosts: 100000, rate: 1Gbit}\nbroadcast: {size: 64GiB, piece: 1MiB, algorithm: flat}":                                `65536 pieces at each of 100000 hosts: that would take up to `,
		"network: {generate: star, hosts: 2, rate: 1Gbit}\nbroadcast: {size: 1}\nevents: [{at: 1s, node: h1, do: join}, {at: 1s, node: h2, do: join}]": "nobody is there to begin",
	} {
		if _, err := Parse([]byte(text), os.ReadFile); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// What is large, and can be simulated, is read.
func TestLargeScenariosAreRead(t *testing.T) {
	for _, text := range []string{
		"network: {generate: star, hosts: 10000, rate: 1Gbit}\nbroadcast: {size: 4GiB, piece: 4MiB}",
		"network: {generate: star, hosts: 20000, rate: 1Gbit}\nbroadcast: {size: 1GiB, piece: 4MiB}",
		"network: {generate: star, hosts: 100000, rate: 1Gbit}\nbroadcast: {size: 1GiB, piece: 4MiB, algorithm: flat}",
		"network: {generate: sites, sites: 10, hosts: 1000, rate: 1Gbit, between: 1Gbit}\nbroadcast: {size: 1GiB, piece: 4MiB}",
		"network: {generate: star, hosts: 100, rate: 1Gbit}\nbroadcast: {size: 1GiB, piece: 1KiB}",
	} {
		parse(t, text)
	}
}

// Files that have no end, or hardly any, are refused: the scenario itself, and what it names.
func TestLongFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	long, named := filepath.Join(dir, "long.yaml"), filepath.Join(dir, "named.yaml")
	if err := os.WriteFile(long, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(long, form.MaxText+1); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(named, []byte("network: {file: long.yaml}\nbroadcast: {size: 1MiB}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		long:  long + ": it is longer than the 64 MiB that are read",
		named: named + ": line 1: network.file: \"long.yaml\": " + long + ": it is longer than the 64 MiB that are read",
	} {
		if _, err := Read(name); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("network: {generate: star, hosts: 2, rate: 2000000Tbit, delay: 2000000h}\nbroadcast: {size: 1}"))
	f.Add([]byte(`{"network": {"generate": "sites", "sites": 2, "hosts": 3, "rate": ["1Gbit"], "between": "1Mbit"}, "broadcast": {"size": "1MB", "store": {"at": "s1"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text, func(string) ([]byte, error) { return nil, os.ErrNotExist })
		switch {
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Fatalf("an error of several lines: %v", err)
		case err != nil:
		case len(s.Network.Hosts) == 0 || s.Network.Validate() != nil || s.Layout.Validate() != nil || s.Layout.Count() == 0:
			t.Fatalf("was read, and cannot be run: %+v", s)
		}
	})
}
