package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/unit"
)

// A probe of what the nodes' networks carry, outside of jobs. The control plane says who sends to whom, step by
// step; what a node has measured it keeps, for the bounds of later jobs (internal/account), and tells.
//
//	step 1, 2   one half of each site's nodes sends to the other half, and the other way around
//	step 3, …   the same with other halves
//	last step   all read from the store at once
//
// A node takes part in a step with up to probeFan others, as it does in a job, so that neither one slow
// partner nor what a single connection carries stands for its link. It refuses while a job is there, and a job that comes ends it.
type (
	// ProbeStep goes to a node: its part in a step.
	ProbeStep struct {
		Probe  string   `json:"probe"`
		Step   int      `json:"step"`
		From   []string `json:"from,omitempty"`   // nodes that send to it
		To     []Member `json:"to,omitempty"`     // nodes to which it sends
		Source string   `json:"source,omitempty"` // what it reads, if it does neither
	}

	// NodeProbe is what a node has found out in all steps of the probe so far; zero is not measured.
	NodeProbe struct {
		In    unit.Bandwidth `json:"in,omitempty"`
		Out   unit.Bandwidth `json:"out,omitempty"`
		Store unit.Bandwidth `json:"store,omitempty"`

		Received unit.Bytes `json:"received,omitempty"` // in this step, from nodes
		Read     unit.Bytes `json:"read,omitempty"`     // and from the store
		Error    string     `json:"error,omitempty"`    // what did not succeed in it
	}

	// ProbedNode is what a probe has found out about a node; zero is not measured.
	ProbedNode struct {
		Name   string         `json:"name"`
		Down   string         `json:"down,omitempty"` // since when, if it is
		In     unit.Bandwidth `json:"in,omitempty"`
		Out    unit.Bandwidth `json:"out,omitempty"`
		Store  unit.Bandwidth `json:"store,omitempty"`
		Errors []string       `json:"errors,omitempty"` // each once
	}

	// Probe is what a probe has found out.
	Probe struct {
		Nodes []ProbedNode `json:"nodes"`
		Moved unit.Bytes   `json:"moved"` // between nodes
		Read  unit.Bytes   `json:"read"`  // from the store
	}

	probeRequest struct {
		Nodes  []string `json:"nodes,omitempty"` // selectors
		Source string   `json:"source,omitempty"`
	}
)

// Prober is a Runner that can measure its node's network. An error says that nothing of the step was carried out.
type Prober interface {
	Probe(ctx context.Context, s ProbeStep) (NodeProbe, error)
}

const (
	stepWithin  = 10 * time.Second // a node's part in a step
	probeWithin = 80 * time.Second // all steps; less than a client waits
	probeFan    = 4                // nodes that a node sends to in a step
)

// errJobCame ends a node's part in a probe.
var errJobCame = errors.New("a job has begun here, and goes first: probe again when it has ended")

// probe carries out a node's part in a step, unless a job is there.
func (m *member) probe(ctx context.Context, s ProbeStep) (NodeProbe, error) {
	p, ok := m.a.Runner.(Prober)
	if !ok {
		return NodeProbe{}, fail(ErrInvalid, "this agent cannot probe its network")
	}
	if len(s.Probe) != idChars || !isIDPrefix(s.Probe) {
		return NodeProbe{}, fail(ErrInvalid, "%q is no probe's ID", oneLine(s.Probe))
	}
	ctx, stop := context.WithTimeout(ctx, stepWithin-time.Second)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if err := m.beginProbe(end); err != nil {
		return NodeProbe{}, err
	}
	defer func() {
		m.mu.Lock()
		m.probing = nil
		m.mu.Unlock()
	}()
	found, err := p.Probe(ctx, s)
	if errors.Is(context.Cause(ctx), errJobCame) {
		return NodeProbe{}, fail(ErrConflict, "%v", errJobCame)
	}
	return found, err
}

// beginProbe notes what ends the probe, if there may be one.
func (m *member) beginProbe(end context.CancelCauseFunc) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, p := range m.parts {
		if p.waits() || p.running {
			return fail(ErrConflict, "job %s is there: probe when it has ended", id)
		}
	}
	switch {
	case m.leaving:
		return errLeaving
	case m.probing != nil:
		return fail(ErrConflict, "another probe is under way there")
	}
	m.probing = end
	return nil
}

// bound makes what a node says it found fit to be shown.
func (p *NodeProbe) bound() {
	for _, r := range []*unit.Bandwidth{&p.In, &p.Out, &p.Store} {
		if !account.Plausible(*r) {
			*r = 0
		}
	}
	p.Received, p.Read = min(max(p.Received, 0), account.MostBytes), min(max(p.Read, 0), account.MostBytes)
	p.Error = oneLine(p.Error)
}

// A probeFlow is from whom to whom, by name.
type probeFlow struct{ from, to string }

// probeSteps are who sends to whom, step by step. Nodes of one site are measured among themselves: what is between sites
// may be narrower. Who is alone at a site goes with others who are.
func probeSteps(sites map[string]string) (steps [][]probeFlow) {
	bySite := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		bySite[sites[name]] = append(bySite[sites[name]], name)
	}
	var groups [][]string
	var alone []string
	for _, site := range slices.Sorted(maps.Keys(bySite)) {
		if g := bySite[site]; len(g) > 1 {
			groups = append(groups, g)
		} else {
			alone = append(alone, g...)
		}
	}
	if len(alone) == 1 && len(groups) > 0 {
		groups[0] = append(groups[0], alone...)
	} else if len(alone) > 1 {
		groups = append(groups, alone)
	}
	for _, g := range groups {
		for i, h := range halves(g) {
			for len(steps) < 2*i+2 {
				steps = append(steps, nil)
			}
			steps[2*i] = append(steps[2*i], probeFlows(h[0], h[1])...)
			steps[2*i+1] = append(steps[2*i+1], probeFlows(h[1], h[0])...)
		}
	}
	return steps
}

// halves are ways to part nodes into two halves. Each node is once at least in one that is not larger than the other, so that
// the other can fill its link.
func halves(g []string) (out [][2][]string) {
	h := len(g) / 2
	if len(g)%2 == 0 {
		out = append(out, [2][]string{g[:h], g[h:]})
		if len(g) > 2 { // with other partners
			var even, odd []string
			for i := 0; i < len(g); i += 2 {
				even, odd = append(even, g[i]), append(odd, g[i+1])
			}
			out = append(out, [2][]string{even, odd})
		}
		return out
	}
	for k := range 3 {
		turned := slices.Concat(g[k*h:], g[:k*h])
		out = append(out, [2][]string{turned[:h], turned[h:]})
	}
	return out
}

// probeFlows go from each of some to a few of the others, as evenly as can be.
func probeFlows(from, to []string) (flows []probeFlow) {
	for i, name := range from {
		for k := range min(len(to), probeFan) {
			flows = append(flows, probeFlow{name, to[(i+k)%len(to)]})
		}
	}
	return flows
}

// probe measures what the networks of the selected nodes carry.
func (h *Hub) probe(ctx context.Context, r probeRequest) (Probe, error) {
	var out Probe
	if r.Source != "" {
		if err := checkSource(r.Source); err != nil {
			return out, err
		}
	}
	known := h.views()
	names, err := selectNodes(r.Nodes, known)
	if err != nil {
		return out, err
	}
	sites, place := map[string]string{}, map[string]int{}
	for i, name := range names {
		n := ProbedNode{Name: name}
		if v := known[name]; !v.Up {
			n.Down = downSince(v, time.Now())
		} else {
			sites[name], place[name] = v.Site, i
		}
		out.Nodes = append(out.Nodes, n)
	}
	switch {
	case len(sites) == 0:
		return out, fail(ErrDown, "no selected node is up: %s %s", names[0], out.Nodes[0].Down+more(len(names)-1))
	case len(sites) == 1 && r.Source == "":
		return out, fail(ErrDown, "one node is up, and what its link carries takes two; what the store gives it could be measured (--source URL)")
	case !h.probing.CompareAndSwap(false, true):
		return out, fail(ErrConflict, "another probe is under way: wait until it has ended")
	}
	defer h.probing.Store(false)
	if job, node := h.busy(sites); job != "" {
		return out, fail(ErrConflict, "job %s is running on %s: probe when it has ended, or leave that node out (--nodes)", job, node)
	}
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	id := newID(time.Now())
	steps := probeSteps(sites)
	for i, flows := range steps {
		parts := map[string]*ProbeStep{}
		part := func(name string) *ProbeStep {
			if parts[name] == nil {
				parts[name] = &ProbeStep{Probe: id, Step: i}
			}
			return parts[name]
		}
		for _, f := range flows {
			part(f.from).To = append(part(f.from).To, Member{Name: f.to, Addr: known[f.to].Addr})
			part(f.to).From = append(part(f.to).From, f.from)
		}
		h.probeStep(ctx, parts, place, &out)
	}
	if r.Source != "" {
		parts := map[string]*ProbeStep{}
		for name := range sites {
			parts[name] = &ProbeStep{Probe: id, Step: len(steps), Source: r.Source}
		}
		h.probeStep(ctx, parts, place, &out)
	}
	h.log.Info("probed", "nodes", len(sites), "moved", int64(out.Moved), "read", int64(out.Read))
	return out, nil
}

// busy finds a job that has not ended on one of the nodes.
func (h *Hub) busy(nodes map[string]string) (job, node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(h.active)) {
		for _, n := range h.active[id].latest.Load().Nodes {
			if _, ok := nodes[n.Name]; ok && !n.over() {
				return id, n.Name
			}
		}
	}
	return "", ""
}

// probeStep has all nodes carry out their parts of a step at once, and enters what they say.
func (h *Hub) probeStep(ctx context.Context, parts map[string]*ProbeStep, place map[string]int, out *Probe) {
	var mu sync.Mutex // guards out
	var wg sync.WaitGroup
	for name, part := range parts {
		wg.Go(func() {
			var found NodeProbe
			body, err := json.Marshal(part)
			if err == nil {
				err = h.ask(ctx, name, "probe", body, stepWithin, &found)
			}
			if errors.Is(err, errSilent) {
				err = fmt.Errorf("did not answer within %v", stepWithin)
			}
			if err != nil {
				found = NodeProbe{Error: err.Error()}
			}
			found.bound()
			mu.Lock()
			defer mu.Unlock()
			n := &out.Nodes[place[name]]
			n.In, n.Out, n.Store = max(n.In, found.In), max(n.Out, found.Out), max(n.Store, found.Store)
			out.Moved = account.Sum(out.Moved, found.Received)
			out.Read = account.Sum(out.Read, found.Read)
			const mostErrors = 8
			if e := found.Error; e != "" && !slices.Contains(n.Errors, e) && len(n.Errors) < mostErrors {
				n.Errors = append(n.Errors, e)
			}
		})
	}
	wg.Wait()
}

// Probe measures what the networks of the nodes that the selectors match, or of all, carry, and with a source what its store gives
// them. The nodes keep it for the bounds of later jobs. It takes some seconds, in which it fills the links. ErrConflict
// while a job is there, or another probe is under way; ErrDown, also if one node is up and there is no source; ErrInvalid, ErrNoSuchNode.
func (c *Client) Probe(ctx context.Context, nodes []string, source string) (Probe, error) {
	var out Probe
	err := c.call(ctx, "probe", probeRequest{nodes, source}, &out, false)
	slices.SortFunc(out.Nodes, func(a, b ProbedNode) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}
