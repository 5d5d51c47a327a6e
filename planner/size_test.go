package planner

import (
	"math"
	"slices"
	"testing"
)

// A link that is as wide as a file may say leaves a plan as good as any that is wide enough.
func TestUnlimitedLinks(t *testing.T) {
	const unlimited = 125e15
	names := []string{"h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9", "s0", "s1"}
	network := func(trunk, server float64) *Network {
		links := []Link{{A: 10, B: 11, Rate: trunk, Back: trunk}}
		for h := range 10 {
			rate := 125e5 * (0.5 + float64(h*7%10)/20)
			if h == 0 && server > 0 {
				rate = server
			}
			links = append(links, Link{A: h, B: 10 + h%2, Rate: rate, Back: rate})
		}
		return NewNetwork(10, names, links, nil)
	}
	ts := []Transfer{
		{Name: "x", Sources: []int{0, 1}, Destinations: []int{3, 5, 6, 8}},
		{Name: "y", Sources: []int{4}, Destinations: []int{1, 2, 7}},
		{Name: "z", Sources: []int{9}, Destinations: []int{0, 2, 4}},
	}
	for _, server := range []float64{0, unlimited} {
		for _, o := range []Options{{}, {Floor: 0.5}, {MaxMin: true}} {
			_, want := planned(t, network(125e7, min(server, 125e7)), o, ts...)
			p, plan := planned(t, network(unlimited, server), o, ts...)
			sound(t, p, plan)
			same := func(got, want float64) bool { return math.Abs(got-want) <= 1e-5*want }
			if !same(plan.Throughput, want.Throughput) || !same(plan.Bound, want.Bound) || (o.Floor > 0 || o.MaxMin) && !same(plan.MinRate, want.MinRate) || !same(plan.Theta, want.Theta) {
				t.Errorf("%+v, server of %v: throughput %v, bound %v, smallest %v, theta %v; with wide links %v, %v, %v, %v", o, server,
					plan.Throughput, plan.Bound, plan.MinRate, plan.Theta, want.Throughput, want.Bound, want.MinRate, want.Theta)
			}
			if i := slices.IndexFunc(plan.Links, func(l Load) bool { return l.Channel == 0 }); i < 0 || plan.Links[i].Rate != unlimited {
				t.Errorf("the trunk is not said to be as wide as it is")
			}
			if err := p.SetRate(0, 125e4); err != nil {
				t.Fatal(err)
			}
			if again := finished(t, p); again.Throughput >= plan.Throughput {
				t.Errorf("with a thin trunk %v, before %v", again.Throughput, plan.Throughput)
			}
		}
	}
}
