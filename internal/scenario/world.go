package scenario

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/sim"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/topo"
	"github.com/freshet/freshet/unit"
)

// Times in seconds. Those that are no plain number are the rules'.
const (
	second       = float64(time.Second)
	tickEvery    = float64(exchange.TickEvery) / second // announcements are gathered for as long
	reconnectFor = float64(exchange.ReconnectFor) / second
	inFlight     = float64(exchange.InFlight) / second
	mostRest     = float64(exchange.MostRest) / second
	answerWithin = float64(steal.AnswerWithin) / second
	silentFor    = 20   // then the connection to a node that sends nothing is given up, as internal/peer does
	turnEvery    = 1    // a node looks whose turn it is to be served; in internal/swarm with every tick
	feelEvery    = 0.25 // a node looks at how fast it reads from the store; likewise
)

// With more than exactHosts hosts shares have a tolerance.
const (
	exactHosts = 100
	tolerance  = 0.02
)

// onWay is what a link takes on the way of one flow, in bytes: sim.Network keeps it, for a moment twice when it makes room for more.
const onWay = 36

// Streams of randomness, all from the scenario's seed. Those of nodes begin at streamNodes.
const (
	streamStore = iota
	streamGraph
	streamConnections
	streamNodes
)

// epoch is what the clock of the simulation shows to rules at its second 0.
var epoch = time.Unix(1e9, 0)

// world is a scenario while it runs.
type world struct {
	*Scenario
	policy
	sim      *sim.Sim[event]
	router   *topo.Router
	path     []topo.Channel // memory of route
	room     int            // links that ways of flows may have yet, all together
	links    []sim.Link     // by channel of the network
	total    sim.Link       // of the store
	places   *places        // nil: there are no sites
	nodes    []node
	hostOf   []int32 // by host: its node, or -1
	conns    []conn
	owner    []owner       // by flow: what it belongs to
	holders  [][]int32     // by group and piece: living nodes that have it
	gathered []steal.Claim // to go round
	known    [][]bool      // by group and piece: all have heard that somebody there holds it; only where not all are neighbours
	hops     float64       // from any node to all others over neighbours; 0: all are neighbours
	farther  float64       // delay of one hop, the longest
	open     int           // nodes that are to have the object and have it not
	moved    float64       // when something last arrived
	patience float64       // for how long nothing does, at least, before it is asked whether anything ever will
	look     float64       // when that is asked next
	dozes    bool          // some nodes do not look whom they serve; see doze
	steps    int           // events so far
	drawn    *rand.Rand
	now      time.Time
	err      error
}

// owner says what a flow belongs to: a conn, or connection number conn of node's to the store.
type owner struct {
	conn  int32
	store bool
	node  int32
}

// node is one node of the broadcast. Peers have local ranks: their index in peers. Its own is the
// number of peers; those after that are elsewhere, one for each group.
type node struct {
	ex       *exchange.State
	works    *steal.Node
	appetite *steal.Appetite
	turns    *steal.Turns
	twice    *steal.Twice
	rng      *rand.Rand
	peers    []peer
	waves    []wave // peers by delay
	host     int    // in the network

	fetches   []fetch
	waits     bool    // until it is its turn to read
	read      float64 // seconds in which it read from the store, up to clocked
	clocked   float64
	parts     []part
	news      []int32        // got, not yet announced
	told      float64        // when it last announced
	telling   bool           // an announcement is on its timer
	asked     int32          // giveWorks so far: an answer that is waited for too long is told from the next
	imports   *steal.Imports // nil: it shares with nobody what crosses
	looks     bool           // a look for more to import is on its timer
	look      float64        // how long that was set to
	gained    float64        // when it last had a piece more
	inbox     []event        // what came while it was stopped
	late      bool           // it joins later
	absent    bool           // and has not yet
	stopped   bool
	lost      bool // others have lost the connection to it
	dead      bool // for all others
	killed    bool
	stops     int32 // how often it was stopped
	yields    bool  // it looks who is ahead
	dozes     bool  // it does not look whom it serves
	numb      bool  // nor at how fast it reads
	joined    float64
	opened    float64 // when it passed the barrier
	isOpen    bool
	done      float64 // -1: not yet
	fromStore float64
	fromPeers float64
}

// peer is a neighbour as a node sees it.
type peer struct {
	node  int32
	mine  int32 // our local rank there
	in    int32 // conn from it to us, -1 before the first request
	delay float64
	back  float64 // from it to us
	owes  int32   // blocks asked of it that have not come; roughly, for who needs looking at
	mute  bool    // it does not serve us
	ahead bool    // it can wait for a moment, and weighs less
}

// wave is a run of local ranks that a message of ours reaches at the same time.
type wave struct {
	delay float64
	ranks []int32
}

// part is a piece that is partly here.
type part struct {
	piece int32
	here  uint64 // by block
	left  int32
}

// conn is what one node sends to another: the blocks that were asked for, in order.
type conn struct {
	from, to int32
	rank     int32 // of the sender at the receiver
	flow     sim.Flow
	queue    []exchange.Request
	queued   int     // blocks in it
	carry    float64 // bytes of the first block that have come
	chokes   bool    // the receiver hears that it is served no longer behind the block that is on its way
}

// world is s before anything has happened.
func (s *Scenario) world(ctx context.Context) (*world, error) {
	w := s.empty()
	return w, w.build(ctx)
}

// empty is a world in which nothing is yet.
func (s *Scenario) empty() *world {
	return &world{
		Scenario: s, sim: sim.New[event](), router: topo.NewRouter(s.Network), drawn: rand.New(rand.NewPCG(s.Seed, streamConnections)), now: epoch,
		room: int((maxMemory - s.memory(s.Layout.Count())) / onWay),
	}
}

// Run simulates s until every node that lives has the object. It fails if that never happens.
func (s *Scenario) Run(ctx context.Context) (Result, error) {
	w, err := s.world(ctx)
	if err == nil {
		err = w.hopeless()
	}
	if err != nil {
		return Result{}, err
	}
	return w.run(ctx)
}

func (w *world) run(ctx context.Context) (Result, error) {
	for i := range w.Events {
		w.sim.At(w.Events[i].At.Seconds(), event{kind: evDo, node: int32(i)})
	}
	for i := range w.nodes {
		if !w.nodes[i].absent {
			w.begin(i)
		}
	}
	for ; w.open > 0; w.steps++ {
		if w.steps&0xffff == 0 && ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		ev, ok := w.sim.Next()
		if !ok || w.sim.Now() > maxSeconds || ev.Flow == sim.None && w.still() {
			return Result{}, w.stuck()
		}
		if w.happen(ev); w.err != nil {
			return Result{}, w.err
		}
	}
	return w.result(), nil
}

// happen does what follows from an event.
func (w *world) happen(ev sim.Event[event]) {
	w.now = epoch.Add(time.Duration(w.sim.Now() * 1e9))
	if w.dozes && (ev.Flow != sim.None || !ev.Timer.kind.own()) {
		w.wake()
	}
	if ev.Flow == sim.None {
		w.handle(ev.Timer)
		return
	}
	w.moved = w.sim.Now()
	if o := w.owner[ev.Flow]; o.store {
		w.read(int(o.node), int(o.conn))
	} else {
		w.carried(o.conn)
	}
}

// after sets a timer.
func (w *world) after(seconds float64, e event) { w.sim.At(w.sim.Now()+seconds, e) }

// build makes links, nodes and who is whose neighbour. It ends early with ctx.
func (w *world) build(ctx context.Context) error {
	w.sim.Tolerance = w.Tolerance
	if w.Tolerance < 0 {
		w.sim.Tolerance = 0
		if len(w.Network.Hosts) > exactHosts {
			w.sim.Tolerance = tolerance
		}
	}
	for i := range w.Network.Links {
		l := &w.Network.Links[i]
		a := w.sim.AddLink(float64(l.Rate))
		b := a
		if !l.Half {
			b = w.sim.AddLink(float64(l.Back))
		}
		w.links = append(w.links, a, b)
	}
	w.total = w.sim.AddLink(limited(w.Store.Total))

	w.hostOf = make([]int32, len(w.Network.Hosts))
	for h := range w.Network.Hosts {
		w.hostOf[h] = -1
		if w.Network.Hosts[h].Name == w.Store.At {
			continue
		}
		w.hostOf[h] = int32(len(w.nodes))
		w.nodes = append(w.nodes, node{host: h, done: -1, told: -1})
	}
	if len(w.nodes) == 0 {
		return fmt.Errorf("there is no node but the store")
	}
	readers := 0
	for _, ev := range w.Events {
		if ev.Do == Join {
			n := &w.nodes[w.hostOf[ev.Host]]
			n.late, n.absent = true, true
		}
	}
	for i := range w.nodes {
		if !w.nodes[i].late {
			readers++
		}
	}
	w.policy = w.Scenario.policy(readers)
	w.open = len(w.nodes)
	w.locate()
	for range w.groups() {
		w.holders = append(w.holders, make([]int32, w.Layout.Count()))
		w.known = append(w.known, make([]bool, w.Layout.Count()))
	}
	if err := w.reach(ctx); err != nil {
		return err
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	for i := range w.nodes {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n := &w.nodes[i]
		n.rng = rand.New(rand.NewPCG(w.Seed, streamNodes+uint64(i)))
		n.appetite = steal.NewAppetite(unit.Bytes(w.policy.PerWork) * w.Layout.Piece)
		c := exchange.Config{
			Self: len(n.peers), Nodes: len(n.peers) + 1, Layout: w.Layout,
			Barrier: w.policy.Barrier, Rand: n.rng, Sites: w.sitesOf(i), Partners: w.partners(i),
		}
		c.AtOnce, c.Few = w.importsAtOnce(i)
		if w.hops > 0 {
			c.Nodes += w.groups()
		}
		n.ex = exchange.New(c)
		for p := range w.Layout.Count() {
			n.ex.Known(p) // digests come with announcements
		}
	}
	delays := w.spread() + w.Store.Delay.Seconds()
	ends := 0.0 // of hosts' links, of which a way has two
	for _, l := range w.Network.Links {
		a, _ := w.router.Place(l.A)
		b, _ := w.router.Place(l.B)
		if min(a, b) < len(w.Network.Hosts) {
			ends = max(ends, l.Delay.Seconds())
		} else {
			delays += l.Delay.Seconds()
		}
	}
	w.patience = stillness + 10*(delays+2*ends)
	w.divide()
	w.divideImports()
	for i := range w.nodes {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.storeConnections(i); err != nil {
			return err
		}
	}
	return nil
}

// reach takes room for the ways from the store to all nodes.
func (w *world) reach(ctx context.Context) error {
	for i := range w.nodes {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		path, _, err := w.storeWay(i)
		if err == nil {
			err = w.lay(w.policy.connections * (2 + len(path))) // with what the store gives to all, and to a client
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lay takes room for ways of so many links, which flows may have.
func (w *world) lay(links int) error {
	if w.room -= links; w.room < 0 {
		return fmt.Errorf("the ways to %d hosts are long: that would take more than %v of memory, which are the most; want fewer hosts, or fewer switches between them", len(w.Network.Hosts), maxMemory)
	}
	return nil
}

// capacities are, by node, what its links carry together: from it, and to it.
func (w *world) capacities(links []topo.Link) (up, down []unit.Bandwidth) {
	up, down = make([]unit.Bandwidth, len(w.nodes)), make([]unit.Bandwidth, len(w.nodes))
	add := func(name string, from, to unit.Bandwidth) {
		if p, _ := w.router.Place(name); p < len(w.hostOf) && w.hostOf[p] >= 0 {
			up[w.hostOf[p]] += from
			down[w.hostOf[p]] += to
		}
	}
	for _, l := range links {
		add(l.A, l.Rate, l.Back)
		add(l.B, l.Back, l.Rate)
	}
	return up, down
}

// connect chooses neighbours: all, or those of a random graph. It takes room for the ways between them.
func (w *world) connect(ctx context.Context) error {
	n := len(w.nodes)
	if w.policy.alone {
		return nil
	}
	with := make([][]int32, n)
	if n <= w.Neighbours+1 {
		for i := range with {
			for k := range n {
				if k != i {
					with[i] = append(with[i], int32(k))
				}
			}
		}
	} else {
		with = w.graph(rand.New(rand.NewPCG(w.Seed, streamGraph)))
		w.hops = w.across(n)
	}
	for i := range w.nodes {
		for _, k := range with[i] {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			delay, ok := w.delay(i, int(k))
			if !ok {
				return fmt.Errorf("there is no way from %s to %s", w.Network.Hosts[w.nodes[i].host].Name, w.Network.Hosts[w.nodes[k].host].Name)
			}
			if err := w.lay(len(w.path)); err != nil {
				return err
			}
			back, ok := w.delay(int(k), i)
			if !ok {
				return fmt.Errorf("there is no way from %s to %s", w.Network.Hosts[w.nodes[k].host].Name, w.Network.Hosts[w.nodes[i].host].Name)
			}
			mine, _ := slices.BinarySearch(with[k], int32(i))
			w.nodes[i].peers = append(w.nodes[i].peers, peer{node: k, mine: int32(mine), in: -1, delay: delay, back: back, mute: true})
			w.farther = max(w.farther, delay)
		}
		w.nodes[i].waves = waves(w.nodes[i].peers)
	}
	return nil
}

// partners are a node's partners, by local rank: all its neighbours, unless they are all that there are.
func (w *world) partners(i int) []int {
	n := &w.nodes[i]
	among := make([]int, 0, len(n.peers))
	if w.hops > 0 {
		var elsewhere []int
		if w.places != nil {
			elsewhere = exchange.Abroad(i, w.places.of)
		}
		for rank := range n.peers {
			if k := int(n.peers[rank].node); w.group(i) == w.group(k) || slices.Contains(elsewhere, k) {
				among = append(among, rank)
			}
		}
		return among
	}
	var sites []int
	if w.places != nil {
		sites = w.places.of
	}
	for _, k := range exchange.Partners(i, len(w.nodes), exchange.DefaultSlots, sites) {
		rank, ok := slices.BinarySearchFunc(n.peers, int32(k), func(p peer, k int32) int { return int(p.node - k) })
		if ok { // else everybody is alone
			among = append(among, rank)
		}
	}
	return among
}

func waves(peers []peer) (ws []wave) {
	order := make([]int32, len(peers))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch da, db := peers[a].delay, peers[b].delay; {
		case da < db:
			return -1
		case da > db:
			return 1
		}
		return 0
	})
	for _, rank := range order {
		if k := len(ws) - 1; k < 0 || ws[k].delay != peers[rank].delay {
			ws = append(ws, wave{delay: peers[rank].delay})
		}
		k := len(ws) - 1
		ws[k].ranks = append(ws[k].ranks, rank)
	}
	return ws
}

// delay is how long a message takes from a node to another.
func (w *world) delay(from, to int) (float64, bool) {
	_, d, ok := w.route(w.nodes[from].host, w.nodes[to].host)
	return d.Seconds(), ok
}

// route is the channels from one place of the network to another, until the next call, and their delay.
func (w *world) route(from, to int) (path []topo.Channel, delay time.Duration, ok bool) {
	w.path, delay, ok = w.router.Route(w.path[:0], from, to)
	return w.path, delay, ok
}

// way is the links from one place of the network to another.
func (w *world) way(from, to int) (links []sim.Link, delay float64, ok bool) {
	path, d, ok := w.route(from, to)
	for _, c := range path {
		links = append(links, w.links[c])
	}
	return links, d.Seconds(), ok
}

// begin is a node's first moment.
func (w *world) begin(i int) {
	n := &w.nodes[i]
	n.joined = w.sim.Now()
	for rank := range n.peers {
		k := n.peers[rank].node
		if o := &w.nodes[k]; !o.absent && !o.lost && !o.dead && !o.killed && (int(k) < i || n.late) { // both are there now
			w.link(i, rank)
		}
	}
	if w.hops > 0 {
		for g := range w.known {
			for p, known := range w.known[g] {
				if known {
					n.ex.Announced(n.elsewhere(g), piece.Range{Lo: p, Hi: p + 1})
				}
			}
		}
	}
	if w.hops == 0 && len(n.peers) > exchange.DefaultSlots || w.hops > 0 && w.places != nil { // else all peers are partners
		w.after(turnEvery, event{kind: evTick, node: int32(i)})
	}
	w.yieldLater(i)
	if w.policy.Adapts && !n.late {
		w.feel(i)
	}
	if n.turns.Matters() {
		w.after(tickEvery, event{kind: evTurn, node: int32(i)})
	}
	w.opening(i)
	w.fetch(i)
}

// link connects a node and its neighbour: each tells the other what it has.
func (w *world) link(i, rank int) {
	n := &w.nodes[i]
	p := &n.peers[rank]
	o, mine := &w.nodes[p.node], int(p.mine)
	n.ex.Up(rank)
	o.ex.Up(mine)
	p.mute, o.peers[mine].mute = true, true
	p.owes, o.peers[mine].owes = 0, 0
	for r := range n.ex.Have().Ranges() {
		o.ex.Announced(mine, r)
	}
	for r := range o.ex.Have().Ranges() {
		n.ex.Announced(rank, r)
	}
	w.slots(i)
	w.slots(int(p.node))
}

func (w *world) handle(e event) {
	switch e.kind { // what does not concern one node alone
	case evHave:
		w.heard(e)
		return
	case evGather:
		w.after(w.spread(), event{kind: evRumour, claims: w.gathered})
		w.gathered = nil
		return
	case evRumour:
		w.rumour(e)
		return
	case evDo:
		w.do(w.Events[e.node])
		return
	case evSilent:
		w.silent(int(e.node), e.peer)
		return
	case evDead:
		w.dead(int(e.node))
		return
	}
	i := int(e.node)
	n := &w.nodes[i]
	if n.killed || n.dead {
		return
	}
	if n.stopped {
		n.inbox = append(n.inbox, e)
		return
	}
	rank := int(e.peer)
	switch e.kind {
	case evRequest:
		w.requested(i, rank, e.req)
	case evCancel:
		w.cancelled(i, rank, e.req)
	case evChoke:
		n.ex.Choked(rank, true)
		n.peers[rank].mute, n.peers[rank].owes = true, 0
		w.step(i)
	case evUnchoke:
		n.ex.Choked(rank, false)
		n.peers[rank].mute = false
		w.step(i)
	case evGiveWork:
		w.give(i, rank, int(e.most), e.pace)
	case evWorks:
		claims, err := n.works.Receive(rank, e.hands, n.ex.Held)
		w.fail(err)
		w.claim(i, claims)
		w.fetch(i)
	case evTook:
		for _, c := range e.claims {
			claims, err := n.works.Took(c)
			w.fail(err)
			if w.hops == 0 { // else all have heard it
				w.claim(i, claims)
			}
		}
		w.fetch(i)
	case evTell:
		n.telling = false
		w.announce(i)
	case evTick:
		w.slots(i)
		w.doze(i)
	case evYield:
		w.yield(i)
		if n.yields = false; w.sim.Now()-w.moved < quiet {
			w.yieldLater(i)
		}
	case evFeel:
		w.feel(i)
	case evGiveUp:
		if n.asked == e.peer && n.works.GiveUp() {
			w.fetch(i)
		}
	case evTurn:
		w.turn(i)
	case evRead:
		w.begun(i, rank)
	case evHungry:
		w.hungry(i)
	case evGiveImports, evImports, evTookImports:
		w.importing(i, e)
	}
}

func (w *world) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// tell sends a message to any node.
func (w *world) tell(from, to int, e event) {
	delay, ok := w.delay(from, to)
	if ok && !w.nodes[to].killed {
		e.node, e.peer = int32(to), int32(from)
		w.after(delay, e)
	}
}

// claim tells all others who took which works.
func (w *world) claim(i int, claims []steal.Claim) {
	if len(claims) == 0 {
		return
	}
	if w.hops > 0 {
		if len(w.gathered) == 0 {
			w.after(tickEvery, event{kind: evGather})
		}
		w.gathered = append(w.gathered, claims...)
		return
	}
	for _, p := range w.nodes[i].peers {
		w.after(p.delay, event{kind: evTook, node: p.node, claims: claims})
	}
}

// across is how many hops it is through a graph of so many nodes.
func (w *world) across(nodes int) float64 {
	if w.Neighbours < 4 { // a ring
		return float64(nodes) / 2
	}
	return math.Ceil(math.Log(float64(nodes)) / math.Log(float64(w.Neighbours-1)))
}

// spread is how long a rumour takes to all nodes.
func (w *world) spread() float64 { return w.hops * (tickEvery + w.farther) }

// rumour is what all nodes hear who are not neighbours of where it began.
func (w *world) rumour(e event) {
	for _, p := range e.pieces {
		g := w.group(int(e.node))
		if w.holders[g][p] == 0 || w.known[g][p] {
			continue
		}
		w.known[g][p] = true
		for i := range w.nodes {
			if n := &w.nodes[i]; !n.killed && !n.absent {
				n.ex.Announced(n.elsewhere(g), piece.Range{Lo: int(p), Hi: int(p) + 1})
				w.opening(i)
				w.next(i)
			}
		}
	}
	if len(e.claims) == 0 {
		return
	}
	for i := range w.nodes {
		if !w.nodes[i].absent {
			w.handle(event{kind: evTook, node: int32(i), claims: e.claims})
		}
	}
}
