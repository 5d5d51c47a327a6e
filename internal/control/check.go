package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/unit"
)

// A check of the cluster. The control plane asks every selected node that is up
// to look at itself and at the others, and passes on what it hears; what that means
// is not decided here.
type (
	// CheckRequest goes to a node.
	CheckRequest struct {
		Peers  []Member `json:"peers"`            // to be reached; itself may be among them
		Source string   `json:"source,omitempty"` // to be read from; empty: none
	}

	// NodeCheck is what a node finds.
	NodeCheck struct {
		Received    time.Time    `json:"received"` // by the node's clock
		Answered    time.Time    `json:"answered"` // likewise
		Version     string       `json:"version"`
		Congestion  string       `json:"congestion"` // control in force at its port; empty: it cannot tell
		Congestions []string     `json:"congestions,omitempty"`
		Files       uint64       `json:"files"` // it may have open; zero: it cannot tell
		Expires     time.Time    `json:"expires"`
		State       string       `json:"state,omitempty"` // what is wrong with its state directory
		Roots       []RootCheck  `json:"roots"`
		Reached     int          `json:"reached"` // peers
		Missed      int          `json:"missed,omitempty"`
		Failures    []Fault      `json:"failures,omitempty"` // the first of those missed, and why
		Source      *SourceCheck `json:"source,omitempty"`
	}

	// RootCheck is a directory under which jobs may write.
	RootCheck struct {
		Dir   string     `json:"dir"`
		Free  unit.Bytes `json:"free"`
		Error string     `json:"error,omitempty"` // it cannot be written
	}

	// SourceCheck is a node's way to a store.
	SourceCheck struct {
		Error     string   `json:"error,omitempty"`
		Stat      Duration `json:"stat"`
		FirstByte Duration `json:"first_byte"` // from the request to the first byte
	}

	// CheckedNode is a node's check as the control plane saw it.
	CheckedNode struct {
		Name  string     `json:"name"`
		Addr  string     `json:"addr"`
		Down  string     `json:"down,omitempty"`  // since when, if it is
		Error string     `json:"error,omitempty"` // it did not answer, or cannot
		Late  bool       `json:"late,omitempty"`  // the check ended before it was asked, or had answered; Error says so
		Sent  time.Time  `json:"sent,omitzero"`   // the request, by the control plane's clock
		Heard time.Time  `json:"heard,omitzero"`  // the answer, likewise
		Found *NodeCheck `json:"found,omitempty"`
	}

	// Check is a check of the cluster.
	Check struct {
		Registered int           `json:"registered"` // nodes, selected or not
		Nodes      []CheckedNode `json:"nodes"`
	}

	checkRequest struct {
		Nodes  []string `json:"nodes,omitempty"` // selectors
		Source string   `json:"source,omitempty"`
	}
)

// Checker is a Runner that can look at its node.
type Checker interface {
	Check(ctx context.Context, r CheckRequest) NodeCheck
}

const (
	checkWithin    = 22 * time.Second // a node
	checkAllWithin = 25 * time.Second // all of them; less than a client waits
	mostMissed     = 20               // peers that a node names
)

var mostChecks = 64 // nodes asked at the same moment; changed by tests

// check is a node's answer.
func (m *member) check(ctx context.Context, r CheckRequest) (NodeCheck, error) {
	received := time.Now()
	c, ok := m.a.Runner.(Checker)
	if !ok {
		return NodeCheck{}, fail(ErrInvalid, "this agent cannot check itself")
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin-2*time.Second)
	defer cancel()
	found := c.Check(ctx, r)
	found.Missed = len(found.Failures)
	found.Failures = found.Failures[:min(len(found.Failures), mostMissed)]
	found.Received, found.Answered = received, time.Now()
	return found, nil
}

// bound makes what a node says it found fit to be shown, and to be passed on with what others say.
func (c *NodeCheck) bound() {
	const mostRoots, mostCongestions = 256, 32
	c.Roots = c.Roots[:min(len(c.Roots), mostRoots)]
	for i, r := range c.Roots {
		c.Roots[i].Dir, c.Roots[i].Error = peer.Printable(r.Dir, maxDest), oneLine(r.Error)
	}
	c.Failures = c.Failures[:min(len(c.Failures), mostMissed)]
	for i, f := range c.Failures {
		c.Failures[i] = Fault{Node: peer.Printable(f.Node, 64), Cause: oneLine(f.Cause)}
	}
	c.Congestions = c.Congestions[:min(len(c.Congestions), mostCongestions)]
	for i, name := range c.Congestions {
		c.Congestions[i] = peer.Printable(name, 32)
	}
	c.Version, c.Congestion, c.State = peer.Printable(c.Version, 64), peer.Printable(c.Congestion, 32), oneLine(c.State)
	if c.Source != nil {
		c.Source.Error = oneLine(c.Source.Error)
	}
	for len(c.Roots)+len(c.Failures) > 0 {
		if b, err := json.Marshal(c); err == nil && len(b) <= maxSelf {
			return
		}
		c.Roots, c.Failures = c.Roots[:len(c.Roots)/2], c.Failures[:len(c.Failures)/2]
	}
}

// check asks the selected nodes.
func (h *Hub) check(ctx context.Context, r checkRequest) (Check, error) {
	if r.Source != "" {
		if err := checkSource(r.Source); err != nil { // as of a job
			return Check{}, err
		}
	}
	known := h.views()
	out := Check{Registered: len(known)}
	if len(known) == 0 {
		return out, nil
	}
	names, err := selectNodes(r.Nodes, known)
	if err != nil {
		return out, err
	}
	request := CheckRequest{Source: r.Source}
	for _, name := range names {
		n := known[name]
		c := CheckedNode{Name: name, Addr: n.Addr}
		if !n.Up {
			c.Down = downSince(n, time.Now())
		} else {
			request.Peers = append(request.Peers, Member{Name: name, Addr: n.Addr})
		}
		out.Nodes = append(out.Nodes, c)
	}
	body, err := json.Marshal(request)
	if err != nil {
		return out, err
	}
	checkAll(ctx, out.Nodes, func(ctx context.Context, name string) (found NodeCheck, err error) {
		err = h.ask(ctx, name, "check", body, checkWithin, &found)
		return found, err
	})
	return out, nil
}

// checkAll asks those of nodes that are up, and enters what they say. Where a firewall drops what the nodes send
// each other each of them takes long. Then the time is up before all have answered, and what the first of them found tells why.
func checkAll(ctx context.Context, nodes []CheckedNode, ask func(ctx context.Context, name string) (NodeCheck, error)) {
	ctx, cancel := context.WithTimeout(ctx, checkAllWithin)
	defer cancel()
	slots := make(chan struct{}, mostChecks)
	var wg sync.WaitGroup
	for i := range nodes {
		c := &nodes[i]
		if c.Down != "" {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // with a slot, too: who was asked gives them back now
			c.Late, c.Error = true, fmt.Sprintf("was not asked: others took all of the %v that a check has", checkAllWithin)
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			c.Sent = time.Now()
			found, err := ask(ctx, c.Name)
			c.Heard = time.Now()
			switch {
			case errors.Is(err, errSilent) && ctx.Err() != nil:
				c.Late, c.Error = true, fmt.Sprintf("was asked late, and had not answered when the %v that a check has were over", checkAllWithin)
			case errors.Is(err, errSilent):
				c.Error = fmt.Sprintf("did not answer within %v", checkWithin)
			case err != nil:
				c.Error = oneLine(err.Error())
			default:
				found.bound()
				c.Found = &found
			}
		})
	}
	wg.Wait()
}

// Check lets the nodes that the selectors match, or all, look at themselves and
// at each other, and at source if it is not empty. ErrInvalid if no job could have that source; ErrNoSuchNode.
func (c *Client) Check(ctx context.Context, nodes []string, source string) (Check, error) {
	var out Check
	err := c.call(ctx, "check", checkRequest{nodes, source}, &out, true)
	return out, err
}
