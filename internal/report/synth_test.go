package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/freshet/freshet/internal/swarm"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// synthetic is a small fluid model of one run: nodes read pieces from the
// store each at its own rate, and exchange them at a common one.
type synthetic struct {
	job, algorithm string
	nodes, pieces  int
	fails          int // the rank of the node that fails half-way; -1 for none
	bound          float64
	seed           uint64
	start          time.Time
	source         string
	name           func(rank int) string
}

const synthPiece = 256 * unit.KiB

func (s synthetic) with(f func(*synthetic)) synthetic { f(&s); return s }

func eight(algorithm string) synthetic {
	return synthetic{
		job: "job-" + algorithm, algorithm: algorithm, nodes: 8, pieces: 1024, fails: -1, bound: 4.1, seed: 1,
		start:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(len(algorithm)) * time.Minute),
		source: "s3://models/llama/weights.safetensors",
		name:   func(i int) string { return fmt.Sprintf("node-%d", i+1) },
	}
}

// events plays the model.
func (s synthetic) events() []swarm.Event {
	rnd := rand.New(rand.NewPCG(s.seed, 2))
	var out []swarm.Event
	names := make([]string, s.nodes)
	for i := range names {
		names[i] = s.name(i)
	}
	tell := func(node int, t float64, e swarm.Event) {
		e.T, e.Job = t, s.job
		if node >= 0 {
			e.Node = names[node]
		}
		out = append(out, e)
	}
	rate := make([]float64, s.nodes) // pieces a second from the store
	for i := range rate {
		rate[i] = 80 + 25*rnd.Float64()
		if rnd.Float64() < 0.3 {
			rate[i] = 160 + 40*rnd.Float64()
		}
		tell(i, 0, swarm.Event{Kind: "run", Algorithm: s.algorithm, Source: s.source, Size: int64(s.pieces) * int64(synthPiece),
			PieceSize: int64(synthPiece), Nodes: names, Start: s.start})
		tell(i, 0.01, swarm.Event{Kind: "phase", Phase: 1})
	}
	if s.bound > 0 {
		tell(-1, 0, swarm.Event{Kind: "bound", BoundS: s.bound, By: "the nodes’ links"})
	}
	has := make([]*piece.Set, s.nodes)
	list := make([][]int, s.nodes)
	clock := make([]float64, s.nodes)
	dead := make([]bool, s.nodes)
	for i := range list {
		has[i] = piece.NewSet(s.pieces)
		share := piece.Share(s.pieces, i, s.nodes)
		if s.algorithm == "flat" {
			share = piece.Range{Lo: 0, Hi: s.pieces}
		}
		for p := range share.Len() {
			list[i] = append(list[i], share.Lo+p)
		}
		clock[i] = 0.05
	}
	got := func(i, p int, from string) {
		has[i].Add(p)
		tell(i, clock[i], swarm.Event{Kind: "piece", Piece: &p, Bytes: int64(synthPiece), From: from})
		if i == s.fails && has[i].Count() > s.pieces/(2*s.nodes) {
			dead[i] = true
			tell(i, clock[i], swarm.Event{Kind: "fault", Peer: "store", Cause: "connection reset by peer"})
			tell(i, clock[i], swarm.Event{Kind: "failed", Cause: "disk full: /data"})
			next := (i + 1) % s.nodes // somebody else reads what it had not told
			list[next] = append(list[next], list[i]...)
			list[i] = nil
		}
	}
	// earliest is the node whose turn it is among those that want one.
	earliest := func(wants func(i int) bool) int {
		best := -1
		for i := range s.nodes {
			if !dead[i] && wants(i) && (best < 0 || clock[i] < clock[best]) {
				best = i
			}
		}
		return best
	}
	idle := make([]bool, s.nodes)
	for {
		i := earliest(func(i int) bool { return !idle[i] })
		if i < 0 {
			break
		}
		if len(list[i]) == 0 {
			victim := i
			for j := range list {
				if len(list[j]) > len(list[victim]) {
					victim = j
				}
			}
			if n := len(list[victim]); s.algorithm == "steal" && n > 16 {
				k := n - n/2/8*8
				stolen := list[victim][k:]
				list[i], list[victim] = append([]int(nil), stolen...), list[victim][:k]
				tell(i, clock[i], swarm.Event{Kind: "work", Lo: stolen[0], Hi: stolen[len(stolen)-1] + 1, From: names[victim]})
				continue
			}
			idle[i] = true
			continue
		}
		p := list[i][0]
		list[i] = list[i][1:]
		clock[i] += (0.7 + 0.6*rnd.Float64()) / rate[i]
		got(i, p, "store")
	}
	if s.algorithm != "flat" && s.nodes > 1 {
		barrier := 0.0
		for i := range clock {
			barrier = max(barrier, clock[i])
		}
		held := make([][]int, s.pieces) // holders of each piece
		for i := range clock {
			for p := range s.pieces {
				if has[i].Has(p) && !dead[i] {
					held[p] = append(held[p], i)
				}
			}
			clock[i] = barrier
			if !dead[i] {
				tell(i, barrier, swarm.Event{Kind: "phase", Phase: 2})
			}
		}
		missing := make([][]int, s.nodes)
		for i := range missing {
			for p := range s.pieces {
				if !has[i].Has(p) && len(held[p]) > 0 {
					missing[i] = append(missing[i], p)
				}
			}
			rnd.Shuffle(len(missing[i]), func(a, b int) {
				missing[i][a], missing[i][b] = missing[i][b], missing[i][a]
			})
		}
		for {
			i := earliest(func(i int) bool { return len(missing[i]) > 0 })
			if i < 0 {
				break
			}
			p := missing[i][0]
			missing[i] = missing[i][1:]
			clock[i] += (0.6 + 0.8*rnd.Float64()) / 260
			got(i, p, names[held[p][rnd.IntN(len(held[p]))]])
			held[p] = append(held[p], i)
		}
	}
	for i := range clock {
		if !dead[i] {
			tell(i, clock[i]+0.08, swarm.Event{Kind: "done", Verified: "source"})
		}
	}
	return out
}

// recorded writes events as recordings are written, in a random order.
func recorded(runs ...synthetic) []byte {
	var all []swarm.Event
	for _, s := range runs {
		all = append(all, s.events()...)
	}
	rand.New(rand.NewPCG(7, 7)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for _, e := range all {
		if err := enc.Encode(e); err != nil {
			panic(err) // no event is beyond JSON
		}
	}
	return buf.Bytes()
}
