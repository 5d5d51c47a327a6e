package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet"
)

// lines shows progress one line at a time: what is noteworthy when it happens,
// and every few seconds how far all is. There are no control characters in it.
type lines struct {
	out io.Writer

	mu      sync.Mutex // guards what follows
	began   bool
	running bool                     // told
	states  map[string]freshet.State // as told
	faults  map[string]int           // by node: how many were told
	total   meter
	last    time.Time // when it was last told how far all is
}

const linesEvery = 5 * time.Second

func newLines(out io.Writer) *lines {
	return &lines{out: out, states: map[string]freshet.State{}, faults: map[string]int{}}
}

func (l *lines) say(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.out, line)
}

func (l *lines) end() {}

func (l *lines) update(j freshet.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.began {
		l.began, l.last = true, now
		fmt.Fprintln(l.out, heading(j))
	}
	have, store, peers, ended := totals(j)
	l.total.note(now, have)
	at := now.Sub(j.Accepted).Seconds()
	if j.State == freshet.Running && !l.running {
		l.running = true
		fmt.Fprintf(l.out, "%6.1f s  all nodes are prepared; it begins\n", at)
	}
	for _, n := range j.Nodes {
		if n.State != l.states[n.Name] {
			l.states[n.Name] = n.State
			if s := event(n); s != "" {
				fmt.Fprintf(l.out, "%6.1f s  %s: %s\n", at, n.Name, s)
			}
		}
		for ; l.faults[n.Name] < len(n.Faults); l.faults[n.Name]++ {
			f := n.Faults[l.faults[n.Name]]
			fmt.Fprintf(l.out, "%6.1f s  %s: fault of %s: %s\n", at, n.Name, f.Node, f.Cause)
		}
	}
	if j.State.Ended() || now.Sub(l.last) < linesEvery {
		return
	}
	l.last = now
	fmt.Fprintf(l.out, "%6.1f s  %s, %d of %d nodes ended, from store %v, from peers %v, %v%s\n", at,
		percent(have, j.Object.Size*bytesOf(len(j.Nodes))), ended, len(j.Nodes), store, peers, l.total.rate(now), slowest(j))
}

// event is what there is to say about a node's new state.
func event(n freshet.NodeStatus) string {
	switch n.State {
	case freshet.Done:
		return fmt.Sprintf("done after %.2f s, from store %v, from peers %v, verified by %s", n.DoneS, n.StoreBytes, n.PeerBytes, n.Verified)
	case freshet.Present:
		return "present: it holds this version already"
	case freshet.Failed:
		return "failed: " + n.Error
	case freshet.Cancelled:
		return "cancelled"
	}
	return ""
}

// slowest names the running node that has least, and what it waits for.
func slowest(j freshet.Job) string {
	running := slices.DeleteFunc(slices.Clone(j.Nodes), func(n freshet.NodeStatus) bool { return n.State.Ended() })
	if len(running) == 0 {
		return ""
	}
	n := slices.MinFunc(running, func(a, b freshet.NodeStatus) int { return cmp.Compare(a.Have, b.Have) })
	s := fmt.Sprintf("; slowest %s at %s", n.Name, percent(n.Have, j.Object.Size))
	if n.Waiting != "" {
		s += ", waits for " + n.Waiting
	}
	return s
}
