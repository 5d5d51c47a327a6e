package planner_test

import (
	"fmt"

	"github.com/freshet/freshet/planner"
	"github.com/freshet/freshet/topo"
	"github.com/freshet/freshet/unit"
)

// A planner goes on from the plan that it has when transfers come and go and links change.
func ExamplePlanner() {
	net, err := topo.Parse([]byte(`
hosts: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]
switches: [s1, s2]
links:
- {a: s1, b: s2, rate: 90MB/s}
- {a: a, b: s1, rate: 200MB/s}
- {a: b, b: s1, rate: 200MB/s}
- {a: c, b: s2, rate: 60MB/s}
- {a: d, b: s2, rate: 60MB/s}
- {a: e, b: s2, rate: 200MB/s}
`))
	if err != nil {
		panic(err)
	}
	g := topo.NewGraph(net)
	host := func(name string) int {
		place, _ := g.Place(name)
		return place
	}
	p, err := planner.New(planner.On(g), planner.Options{Floor: 0.5})
	if err != nil {
		panic(err)
	}
	// show plans to the end. Whoever has no time for that takes steps as long as there is some, and then p.Plan.
	show := func(what string, pairs ...planner.Pair) {
		for more := true; more; {
			if more, err = p.Step(); err != nil {
				panic(err)
			}
		}
		plan, err := p.Plan()
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %v in all\n", what, unit.Bandwidth(plan.Throughput))
		for _, pair := range pairs {
			fmt.Printf("  transfer %d to %s: %v\n", pair.Transfer, g.Name(pair.Destination), unit.Bandwidth(plan.Rate(pair)))
		}
	}

	x, err := p.Add(planner.Transfer{Name: "x", Sources: []int{host("a")}, Destinations: []int{host("c"), host("d")}})
	if err != nil {
		panic(err)
	}
	toC, toD := planner.Pair{Transfer: x, Destination: host("c")}, planner.Pair{Transfer: x, Destination: host("d")}
	show("x alone", toC, toD)

	y, err := p.Add(planner.Transfer{Name: "y", Sources: []int{host("b")}, Destinations: []int{host("e")}})
	if err != nil {
		panic(err)
	}
	toE := planner.Pair{Transfer: y, Destination: host("e")}
	show("with y", toC, toD, toE)

	// Channel 2·i is the way from the first end of link i to the second, 2·i+1 the way back.
	if err := p.SetRate(0, float64(45*unit.MBps)); err != nil {
		panic(err)
	}
	show("half as much between the switches", toC, toD, toE)

	p.Remove(x)
	show("without x", toE)
	// Output:
	// x alone: 120 MB/s in all
	//   transfer 0 to c: 60 MB/s
	//   transfer 0 to d: 60 MB/s
	// with y: 150 MB/s in all
	//   transfer 0 to c: 60 MB/s
	//   transfer 0 to d: 60 MB/s
	//   transfer 1 to e: 30 MB/s
	// half as much between the switches: 78.75 MB/s in all
	//   transfer 0 to c: 33.75 MB/s
	//   transfer 0 to d: 33.75 MB/s
	//   transfer 1 to e: 11.25 MB/s
	// without x: 45 MB/s in all
	//   transfer 1 to e: 45 MB/s
}
