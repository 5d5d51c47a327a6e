// Package scenario runs whole broadcasts in a simulation: the rules that real
// nodes obey (packages steal and exchange) on a simulated network (packages
// topo and sim), hundreds or thousands of nodes in one process, from one seed.
//
//	SCENARIO.yaml ──> Scenario ──Run──> Result
//	                     │
//	topo.Network ── links, routes ──> sim: clock, flows, max-min shares
//	                                   ↑ requests, blocks, messages ↓
//	            a node each: steal.Node, exchange.State, driven as internal/swarm drives them
//
// What is as in internal/swarm: who reads what, who asks whom for what and when, the barrier, choking, end-game, who goes first over a full link, what
// follows when nodes die, what is read twice. What is
// left out: disks, processors, digests, TCP (a flow has its fair share at once), and what helps against nodes and connections
// that hardly get on or give nothing: steal.Overtake, steal.Lags, exchange.State.Hoards. What is different:
//
//   - In a swarm of more than Neighbours+1 nodes a node is connected with that many others only, its
//     partners (exchange.Graph); with sites, those are of its own and some of others (exchange.Abroad). What all nodes have to know (which pieces some node holds, who took which works)
//     goes from neighbour to neighbour: it is known to all after as many hops as the
//     graph of neighbours is wide, each one gathering time and delay. To a State, what nodes
//     beyond its neighbours hold is held by one more peer for each site, elsewhere, that is never connected.
//   - giveWork goes to any node directly: a connection is made for it.
//   - What a node has got it tells in a message of its own, one every exchange.TickEvery at most; there it goes with whatever else does, or later.
//
// docs/scenario.md has the form of the file.
package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/form"
	"github.com/freshet/freshet/objstore/limit"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/topo"
	"github.com/freshet/freshet/unit"
)

// Scenario is a broadcast and the network that it happens on. Read makes valid ones.
type Scenario struct {
	Seed       uint64
	Network    *topo.Network
	Layout     piece.Layout
	Algorithm  string
	PerWork    int // pieces per work unit; zero: as steal.PolicyOf has it
	Neighbours int // most peers that a node exchanges with
	Store      Store
	Events     []Event // by time

	// Tolerance of shares, as sim.Network has it. Negative: 0 up to 100 hosts, beyond that the constant tolerance.
	Tolerance float64
}

// Store is where the object is. Rates that are zero are not limited.
type Store struct {
	At            string // the host or switch that it is at; empty: beside every host's link
	Total         unit.Bandwidth
	PerClient     []unit.Bandwidth     // by host
	PerConnection []limit.Distribution // by host, drawn for each connection
	Delay         time.Duration        // one way, besides that of the network
}

// Event is something that happens to a node.
type Event struct {
	At   time.Duration
	Host int
	Do   Doing
	Rate unit.Bandwidth // of Slow: of its links, both directions
}

// Doing is what an event does.
type Doing string

const (
	Die    Doing = "die"    // its process ends; connections close
	Stop   Doing = "stop"   // its process stops; connections stay
	Resume Doing = "resume" // it goes on
	Join   Doing = "join"   // it is not there before
	Slow   Doing = "slow"   // its links have another rate from now on
)

const (
	defaultNeighbours = exchange.DefaultSlots
	fullMesh          = 33 // so many nodes, and everybody is everybody's neighbour, as real nodes are: as many as were compared with real ones, and one more
	maxHosts          = 100_000
	maxPiece          = 16 * unit.MiB // the largest that freshet chooses by itself; its blocks fit a word
	maxPieces         = 1 << 20
	maxMemory         = 16 * unit.GiB // 10,000 hosts with 1,024 pieces keep 3, 20,000 with 256 pieces 10
)

// Read reads a scenario from a file. Files that it names are found beside it.
func Read(name string) (*Scenario, error) {
	text, err := readText(name)
	if err != nil {
		return nil, err
	}
	s, err := Parse(text, func(other string) ([]byte, error) {
		if !filepath.IsAbs(other) {
			other = filepath.Join(filepath.Dir(name), other)
		}
		return readText(other)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// readText reads a file of at most form.MaxText bytes.
func readText(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return form.Read(name, f)
}

// Parse reads a scenario from YAML or JSON; open reads the files that it names.
func Parse(text []byte, open func(name string) ([]byte, error)) (*Scenario, error) {
	doc := form.Parse(text)
	o := doc.Root().Object("seed", "network", "broadcast", "events")
	s := &Scenario{Seed: 1, Tolerance: -1}
	if v := o.Get("seed"); v.Given() {
		s.Seed = v.Seed()
	}
	atStore := s.network(o.Need("network"), open)
	if doc.Err() == nil {
		s.broadcast(o.Need("broadcast"), atStore)
	}
	if doc.Err() == nil {
		s.events(o.Get("events"))
	}
	return s, doc.Err()
}

// network reads where it happens, and returns where the store is unless the scenario says so.
func (s *Scenario) network(v form.Value, open func(string) ([]byte, error)) (atStore string) {
	star := []string{"generate", "hosts", "rate", "rate_back", "delay"}
	sites := append(slices.Clone(star), "sites", "between", "between_back", "between_delay")
	switch o := v.Object(append(slices.Clone(sites), "file")...); {
	case !o.Given():
	case o.Get("file").Given():
		o = v.Object("file")
		name := o.Get("file").Text()
		text, err := open(name)
		if err == nil {
			s.Network, err = topo.ParseAny(text, topo.Zoo{})
		}
		if err != nil {
			o.Get("file").Fail("%q: %v", name, err)
			return ""
		}
		if h := len(s.Network.Hosts); h < 1 || h > maxHosts {
			o.Get("file").Fail("%d hosts; a scenario has 1 to %d", h, maxHosts)
		}
	case o.Need("generate").OneOf("star", "sites") == "star":
		o = v.Object(star...)
		hosts := o.Need("hosts").Int(1, maxHosts)
		a := access(o)
		if o.Given() {
			s.Network = topo.Star(hosts, a)
		}
	default:
		n := o.Need("sites").Int(1, 1000)
		hosts := o.Need("hosts").Int(1, maxHosts/max(1, n))
		a := access(o)
		between := topo.Link{Rate: rate(o.Need("between")), Delay: delay(o.Get("between_delay"))}
		between.Back = between.Rate
		if back := o.Get("between_back"); back.Given() {
			between.Back = rate(back)
		}
		if o.Given() {
			s.Network = topo.Sites(n, hosts, a, between)
		}
		return "wan"
	}
	return ""
}

func access(o form.Object) topo.Access {
	a := topo.Access{Rate: rates(o.Need("rate")), Delay: delay(o.Get("delay"))}
	if v := o.Get("rate_back"); v.Given() {
		a.Back = rates(v)
	}
	return a
}

// values is one value or a list of them.
func values(v form.Value) []form.Value {
	if !v.IsList() {
		return []form.Value{v}
	}
	l := v.List()
	if len(l) == 0 {
		v.Fail("the list is empty")
	}
	return l
}

func rates(v form.Value) (rs []unit.Bandwidth) {
	for _, r := range values(v) {
		rs = append(rs, rate(r))
	}
	return rs
}

// rate is a rate that a link may have; 0 is one.
func rate(v form.Value) unit.Bandwidth {
	r := v.Bandwidth()
	if r > topo.MostRate {
		v.Fail("is more than 1000000 Tbit")
	}
	if r > 0 && r < topo.LeastRate {
		v.Fail("is less than 0.001 B/s, and not 0")
	}
	return r
}

// delay is a delay that a link may have.
func delay(v form.Value) time.Duration {
	d := v.Duration()
	if d > topo.MostDelay {
		v.Fail("is more than an hour")
	}
	return d
}

func (s *Scenario) broadcast(v form.Value, atStore string) {
	o := v.Object("size", "piece", "algorithm", "per_work", "neighbours", "store")
	s.Layout.Size = o.Need("size").Bytes()
	s.Layout.Piece = piece.DefaultSize(s.Layout.Size, 0)
	if p := o.Get("piece"); p.Given() {
		if s.Layout.Piece = p.Bytes(); s.Layout.Piece < 1 || s.Layout.Piece > maxPiece {
			p.Fail("%v: a piece is from 1 B to %v", s.Layout.Piece, maxPiece)
			return
		}
	}
	if o.Given() && s.Layout.Size < 1 {
		o.Get("size").Fail("there is nothing to move")
		return
	}
	if o.Given() && (s.Layout.Size-1)/s.Layout.Piece >= maxPieces {
		o.Get("size").Fail("more than the %d pieces that can be simulated, of %v", maxPieces, s.Layout.Piece)
		return
	}
	s.Algorithm = steal.Default
	if a := o.Get("algorithm"); a.Given() {
		s.Algorithm = a.OneOf(steal.Algorithms...)
	}
	if w := o.Get("per_work"); w.Given() {
		s.PerWork = w.Int(1, maxPieces)
	}
	if s.Neighbours = defaultNeighbours; len(s.Network.Hosts) <= fullMesh {
		s.Neighbours = fullMesh
	}
	if w := o.Get("neighbours"); w.Given() {
		s.Neighbours = w.Int(2, 1000)
	}
	if m := s.memory(s.Layout.Count()); o.Given() && m > maxMemory {
		fewer := "fewer hosts:, a larger piece: or a smaller size:"
		if s.memory(1) > maxMemory {
			fewer = "fewer hosts:"
		}
		o.Get("size").Fail("%d pieces at each of %d hosts: that would take up to %v of memory, and %v are the most; want %s", s.Layout.Count(), len(s.Network.Hosts), m, maxMemory, fewer)
		return
	}
	s.store(o.Get("store"), atStore)
}

// memory is about what all nodes keep together, at most, of an object of so many pieces: each of the pieces, of its peers, and of whose the
// works are of all nodes. Ways are not in it: see world.room.
func (s *Scenario) memory(pieces int) unit.Bytes {
	const (
		state   = 12  // for a piece: exchange.State
		work    = 24  // for a work, of which there are no more than pieces: steal.Node
		owner   = 26  // for a node that a work may be of: likewise
		peer    = 700 // for a peer and a connection with it, what it has not counted
		foreign = 52  // for a piece, where there are sites: steal.Imports, exchange.State
		mate    = 132 // for a node, likewise
	)
	hosts := len(s.Network.Hosts)
	each := state * pieces
	if s.Algorithm != steal.Flat {
		var of []string
		for _, h := range s.Network.Hosts {
			of = append(of, h.Site)
		}
		_, sites := exchange.NumberSites(of)
		peers := min(s.Neighbours, hosts-1)
		if hosts > s.Neighbours+1 { // and all others of each site together
			peers += 1 + len(sites)
		}
		each += work*pieces + owner*hosts + peers*(peer+pieces/8)
		if len(sites) > 0 {
			each += foreign*pieces + mate*hosts + len(sites)*pieces/8
		}
	}
	return unit.Bytes(hosts) * unit.Bytes(each)
}

func (s *Scenario) store(v form.Value, at string) {
	s.Store.At = at
	hosts := len(s.Network.Hosts)
	s.Store.PerClient = make([]unit.Bandwidth, hosts)
	s.Store.PerConnection = make([]limit.Distribution, hosts)
	if !v.Given() {
		return
	}
	o := v.Object("at", "total", "per_client", "per_connection", "delay")
	if a := o.Get("at"); a.Given() {
		s.Store.At = a.Name()
		if _, ok := topo.NewRouter(s.Network).Place(s.Store.At); !ok {
			a.Fail("there is no host or switch %q", s.Store.At)
		}
	}
	s.Store.Total = rate(o.Get("total"))
	s.Store.Delay = delay(o.Get("delay"))
	rng := rand.New(rand.NewPCG(s.Seed, streamStore))
	if c := o.Get("per_client"); c.Given() {
		for i, d := range distributions(c, hosts) {
			s.Store.PerClient[i] = d.Draw(rng)
		}
	}
	if c := o.Get("per_connection"); c.Given() {
		s.Store.PerConnection = distributions(c, hosts)
	}
}

// distributions deals one rate, a named distribution, or a list of them, out to the hosts in turn.
func distributions(v form.Value, hosts int) []limit.Distribution {
	var each []limit.Distribution
	for _, e := range values(v) {
		text := e.Text()
		if len(text) > 1000 {
			e.Fail("is too long")
			return nil
		}
		d, err := limit.ParseDistribution(text)
		if err != nil {
			e.Fail("%v", err)
			return nil
		}
		each = append(each, d)
	}
	all := make([]limit.Distribution, hosts)
	for i := range all {
		if len(each) > 0 {
			all[i] = each[i%len(each)]
		}
	}
	return all
}

func (s *Scenario) events(v form.Value) {
	host := map[string]int{}
	for i, h := range s.Network.Hosts {
		host[h.Name] = i
	}
	joins := map[int]bool{}
	var given []form.Object
	for _, e := range v.List() {
		o := e.Object("at", "node", "do", "rate")
		ev := Event{At: o.Need("at").Duration()}
		name := o.Need("node").Name()
		ev.Do = Doing(o.Need("do").OneOf(string(Die), string(Stop), string(Resume), string(Join), string(Slow)))
		if !o.Given() {
			return
		}
		i, ok := host[name]
		switch {
		case !ok || name == s.Store.At:
			o.Get("node").Fail("there is no node %q", name)
		case ev.Do == Slow:
			ev.Rate = rate(o.Need("rate"))
		case o.Get("rate").Given():
			o.Get("rate").Fail("only slow has a rate")
		case ev.Do == Join && joins[i]:
			o.Fail("%s joins twice", name)
		}
		joins[i] = joins[i] || ev.Do == Join
		ev.Host = i
		s.Events, given = append(s.Events, ev), append(given, o)
	}
	join := map[int]int{} // by host: which event that is
	for k, ev := range s.Events {
		if ev.Do == Join {
			join[ev.Host] = k
		}
	}
	for k, ev := range s.Events {
		j, late := join[ev.Host]
		if late && ev.Do != Slow && cmp.Or(cmp.Compare(ev.At, s.Events[j].At), cmp.Compare(k, j)) < 0 {
			given[k].Fail("%s is not there before it joins at %v, and nobody comes back who was", s.Network.Hosts[ev.Host].Name, s.Events[j].At)
		}
	}
	late, atStore := 0, 0
	for i, h := range s.Network.Hosts {
		if h.Name == s.Store.At {
			atStore++
		} else if joins[i] {
			late++
		}
	}
	if n := len(s.Network.Hosts); len(joins) > 0 && late >= n-atStore {
		v.Fail("all nodes join later: nobody is there to begin")
	}
	slices.SortStableFunc(s.Events, func(a, b Event) int { return int(a.At - b.At) })
}

// Result is what a scenario came to.
type Result struct {
	Makespan float64      `json:"makespan_s"` // until the last node that gets it had the object
	Bound    *float64     `json:"bound_s"`    // of the nodes that have the object; nil: nothing bounds it
	Ratio    *float64     `json:"ratio"`
	Fastest  float64      `json:"fastest_s"`
	Slowest  float64      `json:"slowest_s"`
	Mean     float64      `json:"mean_s"`
	Store    unit.Bytes   `json:"store_bytes"`
	Peers    unit.Bytes   `json:"peer_bytes"`
	Wall     float64      `json:"wall_s"` // what the simulation took; the caller fills it in
	Nodes    []NodeResult `json:"nodes"`

	By      string    `json:"bound_by,omitempty"` // what sets the bound
	Entered []Entered `json:"sites,omitempty"`    // if there are several

	Finished int     `json:"-"` // nodes that have the object
	Opened   float64 `json:"-"` // when the last node that gets the object passed the barrier
}

// MarshalJSON writes null for the times that there are not if nobody has the object.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	if r.Finished > 0 {
		return json.Marshal(plain(r))
	}
	return json.Marshal(struct {
		Makespan *float64 `json:"makespan_s"`
		Bound    *float64 `json:"bound_s"`
		Ratio    *float64 `json:"ratio"`
		Fastest  *float64 `json:"fastest_s"`
		Slowest  *float64 `json:"slowest_s"`
		Mean     *float64 `json:"mean_s"`
		plain
	}{plain: plain(r)})
}

// Entered is what came into a site: from other sites, and from the store unless that is in it.
type Entered struct {
	Site  string     `json:"name"`
	Bytes unit.Bytes `json:"in_bytes"`
}

// NodeResult is what one node came to.
type NodeResult struct {
	Name  string     `json:"name"`
	Done  *float64   `json:"done_s"` // nil: it died before, or was given up by the others
	Store unit.Bytes `json:"store_bytes"`
	Peers unit.Bytes `json:"peer_bytes"` // blocks that came twice included
}

func (w *world) result() Result {
	r := Result{}
	sum := 0.0
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.absent {
			continue
		}
		nr := NodeResult{Name: w.Network.Hosts[n.host].Name, Store: unit.Bytes(math.Round(n.fromStore)), Peers: unit.Bytes(n.fromPeers)}
		r.Store += nr.Store
		r.Peers += nr.Peers
		if n.done >= 0 {
			done := n.done
			nr.Done = &done
			if r.Finished == 0 {
				r.Fastest = done
			}
			r.Fastest, r.Slowest = min(r.Fastest, done), max(r.Slowest, done)
			sum += done
			r.Finished++
			r.Opened = max(r.Opened, n.opened)
		}
		r.Nodes = append(r.Nodes, nr)
	}
	r.Makespan = r.Slowest
	if r.Finished > 0 {
		r.Mean = min(max(sum/float64(r.Finished), r.Fastest), r.Slowest) // rounding
	}
	if w.places != nil {
		for k, bytes := range w.places.crossed {
			r.Entered = append(r.Entered, Entered{w.places.names[k], unit.Bytes(bytes)})
		}
	}
	if bound, by := w.bound(r); bound > 0 && r.Finished > 0 {
		ratio := r.Makespan / bound
		r.Bound, r.Ratio, r.By = &bound, &ratio, by
	}
	return r
}

// bound is the fluid lower bound of what those nodes took that have the object, and what sets it.
func (w *world) bound(r Result) (bound float64, by string) {
	has := func(node int) bool { return w.nodes[node].done >= 0 }
	rates, down := w.most(r.Makespan, has)
	bound, by = steal.Bound(w.Layout.Size, r.Finished, rates)
	for i := range w.nodes {
		if has(i) && down[i] > 0 {
			if reach := w.nodes[i].joined + float64(w.Layout.Size)/float64(down[i]); reach > bound {
				bound, by = reach, "a node that joined late"
			}
		}
	}
	return bound, by
}

// most are the capacities that a broadcast has at most until then, in seconds, to bring the object to the nodes that get it: each link has the highest rate
// that it has until then, and who dies has read and given before. down is what can come to each node.
func (w *world) most(until float64, gets func(node int) bool) (r steal.Rates, down []unit.Bandwidth) {
	links, away := slices.Clone(w.Network.Links), make([]bool, len(w.nodes))
	for _, ev := range w.Events {
		switch later := ev.At.Seconds() > until; {
		case ev.Do == Join:
			away[w.hostOf[ev.Host]] = later
		case ev.Do == Slow && !later:
			for _, c := range w.router.Out(ev.Host) {
				l := &links[c.Link()]
				l.Rate, l.Back = max(l.Rate, ev.Rate), max(l.Back, ev.Rate)
			}
		}
	}
	r.Total = w.Store.Total
	up, down := w.capacities(links)
	for i := range w.nodes {
		if gets(i) {
			r.Down = append(r.Down, down[i])
		}
		if !away[i] {
			r.Up = append(r.Up, up[i])
			r.Store = append(r.Store, w.Store.PerClient[w.nodes[i].host])
		}
	}
	r.Sites, r.Source = w.inbound(links, gets)
	return r, down
}

// inbound is what can come into each site where a node counts, such as those that have got the object: over the links that enter it, and what its
// nodes get from a store beside them; and what can leave the site that the store is in, if a node elsewhere counts. O(hosts + links).
func (w *world) inbound(links []topo.Link, counts func(node int) bool) (all []steal.Inbound, source steal.Outbound) {
	type site struct {
		name   string
		own    float64 // what the store gives its nodes by themselves
		enters float64
		leaves unit.Bandwidth
		counts bool
	}
	var sites []site
	number := map[string]int{} // by name: the site
	for i, h := range w.Network.Hosts {
		if h.Site == "" {
			continue
		}
		k, ok := number[h.Site]
		if !ok {
			k = len(sites)
			number[h.Site], sites = k, append(sites, site{name: h.Site})
		}
		s := &sites[k]
		s.own += limited(w.Store.PerClient[i])
		n := w.hostOf[i]
		s.counts = s.counts || n >= 0 && counts(int(n))
	}
	if w.Store.At == "" {
		for k := range sites {
			sites[k].enters = min(limited(w.Store.Total), sites[k].own)
		}
	}
	siteOf := w.siteOfPlaces()
	cross := func(from, to string, rate unit.Bandwidth) {
		if k, ok := number[from]; ok {
			sites[k].leaves += rate
		}
		if k, ok := number[to]; ok {
			sites[k].enters += float64(rate)
		}
	}
	for _, l := range links {
		if a, b := siteOf[l.A], siteOf[l.B]; a != b {
			cross(a, b, l.Rate)
			cross(b, a, l.Back)
		}
	}
	at, inside := number[siteOf[w.Store.At]]
	inside = inside && w.Store.At != ""
	for k, s := range sites {
		if s.counts && !(inside && k == at) && !math.IsInf(s.enters, 1) {
			all = append(all, steal.Inbound{Site: s.name, Rate: unit.Bandwidth(s.enters)})
		}
	}
	if inside && len(all) > 0 {
		source = steal.Outbound{Site: sites[at].name, Rate: sites[at].leaves}
	}
	return all, source
}

// siteOfPlaces is which site a host or switch is in. A switch is in a site if all hosts that are joined to it are.
func (w *world) siteOfPlaces() map[string]string {
	const several = "\x00"
	site := map[string]string{}
	for _, h := range w.Network.Hosts {
		site[h.Name] = h.Site
	}
	host := func(name string) bool {
		place, _ := w.router.Place(name)
		return place < len(w.Network.Hosts)
	}
	for _, l := range w.Network.Links {
		for _, e := range [2][2]string{{l.A, l.B}, {l.B, l.A}} {
			if h, sw := e[0], e[1]; host(h) && !host(sw) {
				if old, ok := site[sw]; ok && old != site[h] {
					site[sw] = several
				} else {
					site[sw] = site[h]
				}
			}
		}
	}
	return site
}

// limited is r in bytes a second, infinite if it is zero.
func limited(r unit.Bandwidth) float64 {
	if r <= 0 {
		return math.Inf(1)
	}
	return float64(r)
}
