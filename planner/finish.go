package planner

import (
	"math"
	"slices"

	"github.com/freshet/freshet/sim"
)

// What a simulation may have, so that it takes some seconds at most: flows, and looks at links. For the level of a link it looks at all links of the flows over it, which is the sum
// of uses² of each flow whenever what is free is shared out anew: for each flow that ends, half of them on average, or as much as a hundred times for all.
const (
	mostFlows = 3000
	mostLooks = 1e9
)

// Finish estimates when each transfer of a plan, of those that there are now, would be through, in seconds from the beginning, by a fluid simulation: each flow
// moves the largest share of the data that one of its destinations wants of it, at the rate of the plan; what flows that are through
// leave free goes to the others, max-min fair. Flows of transfers without a size go on for ever, at their rates. By transfer; 0 for one without a size or with nothing to do,
// infinite for one of which some destination is starved, or which takes more seconds than can be counted; those out of reach do not count. What is free is shared out anew when a hundredth of those that still
// move have ended, until somebody has enough; where there is too much to simulate nothing is. Then the estimate is on the safe side.
func (p *Planner) Finish(plan *Plan) []float64 {
	finish := make([]float64, len(p.demands))
	for _, s := range plan.Starved {
		if p.given[s.Transfer].Size > 0 {
			finish[s.Transfer] = math.Inf(1)
		}
	}
	link := make([]sim.Link, len(p.net.rate))
	for c := range link {
		link[c] = -1
	}
	var pipes []pipe
	var planned, bytes []float64
	looks := 0.0                     // for all flows once
	have := slices.Clone(p.net.rate) // beside flows that never end
	for _, f := range plan.Flows {
		row := make([]int32, len(f.Hosts))
		share := 0.0 // of the data
		for i, h := range f.Hosts {
			row[i] = int32(h)
			if i > 0 {
				share = max(share, f.Rate/plan.rates[Pair{f.Transfer, h}])
			}
		}
		q, ok := p.net.pipe(f.Transfer, row)
		if !ok {
			continue
		}
		if size := p.given[f.Transfer].Size; size > 0 {
			pipes, planned, bytes = append(pipes, q), append(planned, f.Rate), append(bytes, size*share)
			looks += float64(len(q.use)) * float64(len(q.use))
			continue
		}
		for _, u := range q.use {
			have[u.capacity] = max(have[u.capacity]-u.times*f.Rate, 0)
		}
	}
	if len(pipes) > mostFlows || looks*min(float64(len(pipes))/2, 100) > mostLooks {
		for i, b := range bytes {
			finish[pipes[i].demand] = max(finish[pipes[i].demand], b/planned[i])
		}
		return finish
	}
	s := sim.New[struct{}]()
	flows, of := make([]sim.Flow, len(pipes)), make(map[sim.Flow]int, len(pipes))
	for i := range pipes {
		var way []sim.Link
		for _, u := range pipes[i].use {
			if link[u.capacity] < 0 {
				link[u.capacity] = s.AddLink(have[u.capacity] + 1e-9*p.net.rate[u.capacity])
			}
			for range int(u.times) {
				way = append(way, link[u.capacity])
			}
		}
		flows[i] = s.AddFlow(planned[i], way...)
		s.Start(flows[i], bytes[i])
		of[flows[i]] = i
	}
	moving := make([]bool, len(pipes))
	for i := range moving {
		moving[i] = true
	}
	going, ended := len(pipes), 0 // since it was shared out
	for {
		ev, ok := s.Next()
		if !ok {
			for i, m := range moving {
				if m { // so slowly that its end is nowhere
					finish[pipes[i].demand] = math.Inf(1)
				}
			}
			return finish
		}
		if ev.Flow == sim.None {
			continue
		}
		i := of[ev.Flow]
		moving[i] = false
		s.Stop(ev.Flow)
		finish[pipes[i].demand] = max(finish[pipes[i].demand], s.Now())
		if going, ended = going-1, ended+1; 100*ended < going || p.enough() {
			continue
		}
		ended = 0
		left := slices.Clone(have)
		var rest []pipe
		var at []int
		for k := range pipes {
			if !moving[k] {
				continue
			}
			rest, at = append(rest, pipes[k]), append(at, k)
			for _, u := range pipes[k].use {
				left[u.capacity] = max(left[u.capacity]-u.times*planned[k], 0)
			}
		}
		for k, more := range p.net.fill(rest, func(q *pipe) float64 { return p.demands[q.demand].weight }, left) {
			s.Limit(flows[at[k]], planned[at[k]]+more)
		}
	}
}
