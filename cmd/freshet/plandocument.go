package main

import (
	"math"

	"github.com/freshet/freshet/planner"
	"github.com/freshet/freshet/topo"
)

// planDocument is what --json prints. Rates are bytes per second.
type planDocument struct {
	Mode        string            `json:"mode"`
	Throughput  float64           `json:"throughput"`
	Bound       *float64          `json:"bound"` // nil: nothing is proved
	BoundBy     string            `json:"bound_by"`
	FreeBound   *float64          `json:"free_bound"` // of plans without floors
	Gap         *float64          `json:"gap"`
	MinRate     float64           `json:"min_rate"`
	Theta       *float64          `json:"theta"` // what all pairs can have at once; nil: nobody asked, without a floor
	Floor       float64           `json:"floor"` // what each pair gets at least
	PlanningS   float64           `json:"planning_s"`
	Classes     []planClass       `json:"classes,omitempty"` // with priorities or weights, in mode optimal
	Starved     []planStarved     `json:"starved"`
	Unreachable []planUnreachable `json:"unreachable"`
	Flows       []planFlow        `json:"flows"`
	Links       []planLink        `json:"links"`
	Transfers   []planTransfer    `json:"transfers"`
	Modes       []planMode        `json:"modes,omitempty"` // with --compare
	Why         []planWhy         `json:"why,omitempty"`   // with --explain
}

type planClass struct {
	Priority   int      `json:"priority"`
	Throughput float64  `json:"throughput"`
	Weighted   float64  `json:"weighted"` // by weight: what is planned for
	Bound      *float64 `json:"bound"`    // of weighted, while classes before have what they have; nil: nothing is proved
	BoundBy    string   `json:"bound_by"` // or why nothing is
	Gap        *float64 `json:"gap"`
}

type planPair struct {
	Transfer    string `json:"transfer"`
	Destination string `json:"destination"`
}

type planStarved struct {
	planPair
	Rate  float64 `json:"rate"`
	Alone float64 `json:"alone"` // what it would have if nobody else sent anything
}

type planUnreachable struct {
	planPair
	Reason string `json:"reason"`
}

type planFlow struct {
	Transfer string   `json:"transfer"`
	Path     []string `json:"path"`
	Rate     float64  `json:"rate"`
}

// planLink is a direction of a link. The two of one that is half duplex share its rate.
type planLink struct {
	From   string  `json:"from"`
	To     string  `json:"to"`
	Duplex string  `json:"duplex"` // full, half
	Load   float64 `json:"load"`
	Rate   float64 `json:"rate"`
}

type planTransfer struct {
	Name    string   `json:"name"`
	Size    float64  `json:"size"`
	Rate    float64  `json:"rate"`     // of all destinations together
	FinishS *float64 `json:"finish_s"` // estimate; nil: no size, or never
}

// planMode is how a mode fares beside the others.
type planMode struct {
	Mode       string   `json:"mode"`
	Unfit      string   `json:"unfit,omitempty"` // why it has no plan here; all that follows is 0 then
	Throughput float64  `json:"throughput"`
	Bound      *float64 `json:"bound"` // of its plan, that without a floor if it does not hold it; nil: nothing is proved
	BoundBy    string   `json:"bound_by"`
	MinRate    float64  `json:"min_rate"`
	Starved    int      `json:"starved"`  // destinations that could be reached and have next to nothing
	FinishS    *float64 `json:"finish_s"` // when the last transfer would be through; nil: no sizes, or never
	Flows      int      `json:"flows"`
	PlanningS  float64  `json:"planning_s"`
	last       float64  // finish_s, infinite if never, NaN without sizes
	free       bool     // bound is that without a floor, and the other is lower
}

func finite(x float64) *float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return nil
	}
	return &x
}

func (v *planView) document() planDocument {
	plan := v.plan
	d := planDocument{
		Mode: plan.Mode, Throughput: plan.Throughput, Bound: finite(plan.Bound), BoundBy: plan.BoundBy, FreeBound: finite(plan.FreeBound),
		MinRate: plan.MinRate, Floor: plan.Floor, PlanningS: v.took.Seconds(),
		Starved: []planStarved{}, Unreachable: []planUnreachable{}, Flows: []planFlow{}, Links: []planLink{}, Transfers: []planTransfer{},
	}
	if d.Bound != nil {
		d.Gap = &plan.Gap
	}
	if plan.Theta > 0 {
		d.Theta = &plan.Theta
	}
	for _, c := range plan.Classes {
		d.Classes = append(d.Classes, planClass{c.Priority, c.Throughput, c.Weighted, finite(c.Bound), c.BoundBy, finite(c.Gap)})
	}
	for _, s := range plan.Starved {
		d.Starved = append(d.Starved, planStarved{planPair{v.transfers[s.Transfer].Name, v.g.Name(s.Destination)}, plan.Rate(s), v.p.Alone(s)})
	}
	for _, u := range plan.Unreachable {
		d.Unreachable = append(d.Unreachable, planUnreachable{planPair{v.transfers[u.Transfer].Name, v.g.Name(u.Destination)}, u.Reason})
	}
	for _, f := range plan.Flows {
		d.Flows = append(d.Flows, planFlow{v.transfers[f.Transfer].Name, v.path(f.Hosts), f.Rate})
	}
	for _, l := range plan.Links {
		c := topo.Channel(l.Channel)
		duplex := "full"
		if v.g.Half(c) {
			duplex = "half"
		}
		d.Links = append(d.Links, planLink{v.g.Name(v.g.From(c)), v.g.Name(v.g.To(c)), duplex, l.Load, l.Rate})
	}
	for k, t := range v.transfers {
		d.Transfers = append(d.Transfers, planTransfer{Name: t.Name, Size: t.Size, Rate: v.arrives[k], FinishS: finite(v.finish[k])})
	}
	return d
}

// planWhy is why a destination has what it has, as --json with --explain prints it. Rates are bytes per second.
type planWhy struct {
	planPair
	Rate    float64      `json:"rate"`
	Alone   float64      `json:"alone"` // what it would have if nobody else sent anything
	Starved bool         `json:"starved"`
	From    []planOrigin `json:"from"`    // the flows that it is in, most first
	Sources []planOffer  `json:"sources"` // what each would give instead
}

type planOrigin struct {
	Source     string          `json:"source"`
	Before     string          `json:"before"` // who passes it on: the source, or a destination
	Rate       float64         `json:"rate"`
	Bottleneck *planBottleneck `json:"bottleneck"`
}

type planOffer struct {
	Source     string          `json:"source"`
	Rate       float64         `json:"rate"`
	Bottleneck *planBottleneck `json:"bottleneck"` // nil: there is no way
}

type planBottleneck struct {
	From   string   `json:"from"`
	To     string   `json:"to"`
	Rate   float64  `json:"rate"`
	Used   float64  `json:"used"`   // share of the rate
	Beyond bool     `json:"beyond"` // it comes after the destination
	Others []string `json:"others"` // transfers that use it, too
	Worth  float64  `json:"worth"`  // what a byte per second more of it would bring; 0: nothing, or nobody knows
}

// why is what explain says, for programs.
func (v *planView) why() (all []planWhy) {
	for _, r := range v.p.Explain(v.plan) {
		w := planWhy{planPair: planPair{v.transfers[r.Transfer].Name, v.g.Name(r.Destination)}, Rate: r.Rate, Alone: r.Alone, Starved: r.Starved, From: []planOrigin{}}
		for _, o := range r.From {
			w.From = append(w.From, planOrigin{v.g.Name(o.Source), v.g.Name(o.Before), o.Rate, v.bottleneck(o.Bottleneck)})
		}
		for _, o := range r.Offers {
			w.Sources = append(w.Sources, planOffer{v.g.Name(o.Source), o.Rate, v.bottleneck(o.Bottleneck)})
		}
		all = append(all, w)
	}
	return all
}

// bottleneck is a link that holds something back, for programs; nil: there is none.
func (v *planView) bottleneck(b planner.Bottleneck) *planBottleneck {
	if b.Channel < 0 {
		return nil
	}
	c := topo.Channel(b.Channel)
	return &planBottleneck{v.g.Name(v.g.From(c)), v.g.Name(v.g.To(c)), b.Rate, b.Used, b.Beyond, append([]string{}, v.called(b.Others)...), b.Worth}
}
