package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/freshet/freshet/internal/swarm"
)

// phases are one node's, in seconds since the job was accepted.
type phases struct {
	began               float64 // phase 1
	second              float64 // phase 2; zero: it never came
	lastStore, lastPeer float64 // when the last piece from there was in
	store, peers        int64   // bytes in pieces
	done                float64
}

// split adds to numbers, as means over the nodes, how long each phase took and
// how fast it was. A node's first phase ends where its second one begins, for
// all nodes when every piece has left the store; its rate is that of its own reading, without the
// wait for the others. Flat has one phase.
func split(recording io.Reader, nodes []string, numbers map[string]float64) error {
	of := map[string]*phases{}
	for _, n := range nodes {
		of[n] = &phases{}
	}
	for d := json.NewDecoder(recording); ; {
		var e swarm.Event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("recording: %w", err)
		}
		p := of[e.Node]
		if p == nil {
			continue // the bound
		}
		switch {
		case e.Kind == "phase" && e.Phase == 1:
			p.began = e.T
		case e.Kind == "phase" && e.Phase == 2 && p.second == 0:
			p.second = e.T
		case e.Kind == "piece" && e.From == "store":
			p.store, p.lastStore = p.store+e.Bytes, max(p.lastStore, e.T)
		case e.Kind == "piece":
			p.peers, p.lastPeer = p.peers+e.Bytes, max(p.lastPeer, e.T)
		case e.Kind == "done":
			p.done = e.T
		}
	}
	var first, second, firstRate, secondRate mean
	for name, p := range of {
		if p.done == 0 {
			return fmt.Errorf("recording: node %s does not say that it is done", name)
		}
		if p.second == 0 {
			first.add(p.done)
			second.add(0)
		} else {
			first.add(p.second)
			second.add(p.done - p.second)
		}
		if p.store > 0 && p.lastStore > p.began {
			firstRate.add(float64(p.store) / (p.lastStore - p.began) / 1e6)
		}
		if p.peers > 0 && p.lastPeer > p.second {
			secondRate.add(float64(p.peers) / (p.lastPeer - p.second) / 1e6)
		}
	}
	numbers["phase1_s"], numbers["phase2_s"] = first.of(), second.of()
	if firstRate.n > 0 {
		numbers["phase1_mbps"] = firstRate.of()
	}
	if secondRate.n > 0 {
		numbers["phase2_percent"] = 100 * second.of() / (first.of() + second.of())
		numbers["phase2_mbps"] = secondRate.of()
	}
	return nil
}

type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum += v; m.n++ }
func (m mean) of() float64    { return m.sum / float64(max(m.n, 1)) }
