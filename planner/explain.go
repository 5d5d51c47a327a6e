package planner

import (
	"cmp"
	"math"
	"slices"
)

// Reason says why a destination gets what it gets from whom. Rates are bytes per second.
type Reason struct {
	Pair
	Rate    float64
	Alone   float64  // what it would have if nobody else sent anything: see Planner.Alone
	Starved bool     // see Negligible
	From    []Origin // the flows that it is in, most first
	Offers  []Offer  // what each of the transfer's sources would give instead, in the order in which the transfer has them
}

// Origin is a flow that serves a destination.
type Origin struct {
	Source     int
	Before     int // the host that it comes from: the source, or a destination that passes it on
	Rate       float64
	Bottleneck Bottleneck // what holds it back: where there is one, a link that holds back all flows of the destination
}

// Offer is what a source would give a destination directly, in place of all that it has, while everybody else keeps what they have: what is left over on
// the way, and what the destination's own flows take of it.
type Offer struct {
	Source     int
	Rate       float64
	Bottleneck Bottleneck // of the way, the link that has least left; Channel is -1 if there is no way
}

// Bottleneck is the link that holds a flow back.
type Bottleneck struct {
	Channel int
	Rate    float64 // what it can carry
	Used    float64 // the share of that which it carries: see Full
	Beyond  bool    // it comes after the destination, which passes on at the rate at which it receives
	Others  []int   // other transfers that use a thousandth of it or more, those that use most first
	Worth   float64 // what a byte per second more of it would bring to the transfer's class, in bytes per second by weight; 0: nothing, or nobody knows
}

// Full says whether there is nothing left of the link but for a thousandth, which plans on networks with cycles may leave anywhere.
func (b *Bottleneck) Full() bool { return b.Used >= 1-1e-3 }

// Explain says for each pair of a plan why it is so, in the order of transfers. The plan must be of the transfers and rates that there are now; of others it may panic.
// O(Σ over flows of the length of their ways, and over pairs of the ways from all sources).
func (p *Planner) Explain(plan *Plan) []Reason {
	e := p.explanation(plan)
	var reasons []Reason
	at := map[Pair]int{}
	for k := range p.demands {
		for _, h := range p.demands[k].dests {
			pair := Pair{k, int(h)}
			at[pair] = len(reasons)
			reasons = append(reasons, Reason{Pair: pair, Rate: plan.rates[pair], Alone: p.Alone(pair)})
		}
	}
	for _, s := range plan.Starved {
		reasons[at[s]].Starved = true
	}
	common := make([][]Bottleneck, len(reasons)) // full links that all flows cross on their way to a destination
	for _, f := range plan.Flows {
		legs := e.legs(f)
		var crossed []Bottleneck
		for i := 1; i < len(f.Hosts); i++ {
			crossed = append(crossed, legs[i-1].full...)
			k := at[Pair{f.Transfer, f.Hosts[i]}]
			r := &reasons[k]
			if len(r.From) == 0 {
				common[k] = slices.Clone(crossed)
			}
			common[k] = slices.DeleteFunc(common[k], func(b Bottleneck) bool {
				return !slices.ContainsFunc(crossed, func(o Bottleneck) bool { return o.Channel == b.Channel })
			})
			r.From = append(r.From, Origin{f.Hosts[0], f.Hosts[i-1], f.Rate, e.told(f.Transfer, tightest(legs, i-1))})
		}
	}
	for i := range reasons {
		r := &reasons[i]
		if len(r.From) > 1 && len(common[i]) > 0 {
			e.agree(r, common[i])
		}
		slices.SortStableFunc(r.From, func(a, b Origin) int { return cmp.Compare(b.Rate, a.Rate) })
		r.Offers = e.offers(r)
	}
	return reasons
}

// explanation is what Explain knows of a plan.
type explanation struct {
	p     *Planner
	load  []float64 // by capacity: bytes per second
	users [][]user  // by capacity, transfers in their order
	worth []prices  // by transfer; nil: nobody knows
	way   []int32   // memory
}

// user is a transfer that uses a capacity.
type user struct {
	transfer int
	rate     float64
}

func (p *Planner) explanation(plan *Plan) *explanation {
	e := &explanation{p: p, load: make([]float64, len(p.net.rate)), users: make([][]user, len(p.net.rate)), worth: make([]prices, len(p.demands))}
	for _, f := range plan.Flows {
		for i := 1; i < len(f.Hosts); i++ {
			for _, c := range e.leg(f.Hosts[i-1], f.Hosts[i]) {
				k := p.net.capacity[c]
				e.load[k] += f.Rate
				if n := len(e.users[k]); n == 0 || e.users[k][n-1].transfer != f.Transfer {
					e.users[k] = append(e.users[k], user{transfer: f.Transfer})
				}
				e.users[k][len(e.users[k])-1].rate += f.Rate
			}
		}
	}
	if plan.Mode == Optimal && !p.o.MaxMin { // the prices are that optimum's
		for k := range e.worth {
			e.worth[k] = plan.prices(k)
		}
	}
	return e
}

// leg are the channels from one host to another, until the next call; none: there is no way.
func (e *explanation) leg(from, to int) []int32 {
	var ok bool
	if e.way, ok = e.p.net.way(e.way[:0], int32(from), int32(to)); !ok {
		return nil
	}
	return e.way
}

// link is a channel as what may hold a transfer's flow back.
func (e *explanation) link(transfer int, c int32) Bottleneck {
	k := e.p.net.capacity[c]
	b := Bottleneck{Channel: int(c), Rate: e.p.net.said[k], Used: 1}
	if b.Rate > 0 {
		b.Used = min(e.load[k]/b.Rate, 1)
	}
	if price := e.worth[transfer]; price != nil && b.Rate > 0 {
		b.Worth = price(k)
	}
	return b
}

// told is a bottleneck with the other transfers that use it.
func (e *explanation) told(transfer int, b Bottleneck) Bottleneck {
	k := e.p.net.capacity[b.Channel]
	var others []user
	for _, u := range e.users[k] {
		if u.transfer != transfer && u.rate >= 1e-3*b.Rate {
			others = append(others, u)
		}
	}
	slices.SortStableFunc(others, func(a, b user) int { return cmp.Compare(b.rate, a.rate) })
	for _, u := range others {
		b.Others = append(b.Others, u.transfer)
	}
	return b
}

// leg is the part of a flow from one host to the next.
type leg struct {
	tightest Bottleneck
	last     Bottleneck   // the link into the next host
	full     []Bottleneck // all that are
}

// legs are those of a flow, one for each destination.
func (e *explanation) legs(f Flow) []leg {
	legs := make([]leg, len(f.Hosts)-1)
	for i := range legs {
		for k, c := range e.leg(f.Hosts[i], f.Hosts[i+1]) {
			b := e.link(f.Transfer, c)
			if k == 0 || tighter(&b, &legs[i].tightest) {
				legs[i].tightest = b
			}
			if legs[i].last = b; b.Full() {
				legs[i].full = append(legs[i].full, b)
			}
		}
	}
	return legs
}

// agree makes one of the full links that all flows of a destination cross the bottleneck of all: its own link, or that which is worth most, the last of equal ones.
func (e *explanation) agree(r *Reason, full []Bottleneck) {
	best := full[0]
	for _, b := range full {
		if e.p.net.to(int32(b.Channel)) == int32(r.Destination) {
			best = b
			break
		}
		if b.Worth >= best.Worth {
			best = b
		}
	}
	best = e.told(r.Transfer, best)
	for i := range r.From {
		r.From[i].Bottleneck = best
	}
}

// tighter says whether a tells more than b of why a flow is no faster.
func tighter(a, b *Bottleneck) bool {
	switch {
	case a.Full() != b.Full():
		return a.Full()
	case a.Full() && a.Beyond != b.Beyond:
		return b.Beyond
	case a.Full() && a.Worth != b.Worth:
		return a.Worth > b.Worth
	}
	return a.Used > b.Used
}

// tightest is what holds the flow of these legs back for the destination at the end of one of them: its own link if that is full, else of the full links on the way to it
// that which is worth most; if none is full a full one beyond, or the fullest of all.
func tightest(legs []leg, at int) Bottleneck {
	if legs[at].last.Full() {
		return legs[at].last
	}
	best := legs[0].tightest
	for i := 1; i < len(legs); i++ {
		b := legs[i].tightest
		if b.Beyond = i > at; tighter(&b, &best) {
			best = b
		}
	}
	return best
}

// offers are what the sources of a pair would give it.
func (e *explanation) offers(r *Reason) (offers []Offer) {
	net := e.p.net
	own := map[int32]float64{} // by capacity: what comes to it by way of that
	for _, o := range r.From {
		for _, c := range e.leg(o.Before, r.Destination) {
			own[net.capacity[c]] += o.Rate
		}
	}
	for _, s := range e.p.demands[r.Transfer].sources {
		o := Offer{Source: int(s), Bottleneck: Bottleneck{Channel: -1}}
		least, at := math.Inf(1), int32(-1)
		for _, c := range e.leg(int(s), r.Destination) {
			k := net.capacity[c]
			if room := max(net.rate[k]-e.load[k], 0) + own[k]; room <= least {
				least, at = room, c
			}
		}
		if at >= 0 {
			o.Rate, o.Bottleneck = least, e.told(r.Transfer, e.link(r.Transfer, at))
		}
		offers = append(offers, o)
	}
	return offers
}
