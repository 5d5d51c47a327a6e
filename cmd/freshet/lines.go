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
	causes  map[string]string        // of failures, as told, and the first node that it was told of
	total   meter
	job     freshet.Job // as last heard of
	last    time.Time   // when it was last told how far all is
	beat    *time.Timer // tells it again where nothing is heard of: that is when one wants to know most
	ended   bool
}

const linesEvery = 5 * time.Second

func newLines(out io.Writer) *lines {
	return &lines{out: out, states: map[string]freshet.State{}, faults: map[string]int{}, causes: map[string]string{}}
}

func (l *lines) say(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.out, line)
}

func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.beat != nil {
		l.beat.Stop()
	}
}

// again says how far all is, though there is no news.
func (l *lines) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.job.State.Ended() {
		return
	}
	l.progress(time.Now())
}

// progress says how far all is if it is time for that, and sees that it is
// called again. l.mu is held.
func (l *lines) progress(now time.Time) {
	j := l.job
	if now.Sub(l.last) >= linesEvery {
		l.last = now
		have, store, peers, ended := totals(j)
		fmt.Fprintf(l.out, "%6.1f s  %s, %d of %d nodes ended, from store %v, from peers %v, %v%s\n", now.Sub(j.Accepted).Seconds(),
			percent(have, j.Object.Size*bytesOf(len(j.Nodes))), ended, len(j.Nodes), store, peers, l.total.rate(now), slowest(j))
	}
	if l.beat == nil {
		l.beat = time.AfterFunc(linesEvery, l.again)
		return
	}
	l.beat.Reset(l.last.Add(linesEvery).Sub(now))
}

func (l *lines) update(j freshet.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.began {
		l.began, l.last = true, now
		fmt.Fprintln(l.out, heading(j))
	}
	l.job = j
	have, _, _, _ := totals(j)
	l.total.note(now, have)
	at := now.Sub(j.Accepted).Seconds()
	if j.State == freshet.Running && !l.running {
		l.running = true
		fmt.Fprintf(l.out, "%6.1f s  all nodes are prepared; it begins\n", at)
	}
	for _, n := range j.Nodes {
		if n.State != l.states[n.Name] {
			l.states[n.Name] = n.State
			if s := l.event(n); s != "" {
				fmt.Fprintf(l.out, "%6.1f s  %s: %s\n", at, n.Name, s)
			}
		}
		for ; l.faults[n.Name] < len(n.Faults); l.faults[n.Name]++ {
			f := n.Faults[l.faults[n.Name]]
			fmt.Fprintf(l.out, "%6.1f s  %s: fault of %s: %s\n", at, n.Name, f.Node, f.Cause)
		}
	}
	if !l.ended && !j.State.Ended() {
		l.progress(now)
	}
}

// event is what there is to say about a node's new state. The cause of a
// failure is said once; the end of the job has the list of who failed and why.
func (l *lines) event(n freshet.NodeStatus) string {
	switch n.State {
	case freshet.Done:
		return fmt.Sprintf("done after %.2f s, from store %v, from peers %v, verified by %s", n.DoneS, n.StoreBytes, n.PeerBytes, n.Verified)
	case freshet.Present:
		return "present: it holds this version already"
	case freshet.Failed:
		if first, ok := l.causes[n.Error]; ok {
			return "failed as " + first + " did"
		}
		l.causes[n.Error] = n.Name
		return "failed: " + n.Error
	case freshet.Cancelled:
		return "cancelled"
	}
	return ""
}

// slowest names the running nodes that wait for the same, else the one that
// has least, and what it waits for.
func slowest(j freshet.Job) string {
	running := slices.DeleteFunc(slices.Clone(j.Nodes), func(n freshet.NodeStatus) bool { return n.State.Ended() })
	if len(running) == 0 {
		return ""
	}
	waits := map[string][]string{} // nodes by what they wait for
	most := ""
	for _, n := range running {
		if n.Waiting == "" {
			continue
		}
		waits[n.Waiting] = append(waits[n.Waiting], n.Name)
		if len(waits[n.Waiting]) > len(waits[most]) {
			most = n.Waiting
		}
	}
	if names := waits[most]; len(names) > 1 {
		return fmt.Sprintf("; %s wait for %s", group(names), most)
	}
	n := slices.MinFunc(running, func(a, b freshet.NodeStatus) int { return cmp.Compare(a.Have, b.Have) })
	s := fmt.Sprintf("; slowest %s at %s", n.Name, percent(n.Have, j.Object.Size))
	if n.Waiting != "" {
		s += ", waits for " + n.Waiting
	} else if how := j.SlowStores()[n.Name]; how != "" {
		s += ": " + how
	}
	return s
}
