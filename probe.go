package freshet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/internal/probe"
	"github.com/freshet/freshet/objstore/retry"
	"github.com/freshet/freshet/unit"
)

// Probe carries out this node's part in a step of a probe, and keeps what it
// has found out.
func (w *worker) Probe(ctx context.Context, s control.ProbeStep) (found control.NodeProbe, err error) {
	if s.Source != "" {
		found.Store, found.Read, err = w.probeStore(ctx, s.Source)
	} else {
		step := probe.Step{ID: fmt.Sprintf("probe-%s-%d", s.Probe, s.Step), From: s.From}
		for _, m := range s.To {
			step.To = append(step.To, probe.Peer{Name: m.Name, Addr: m.Addr})
		}
		var r probe.Result
		r, err = probe.Run(ctx, w.port, step)
		found.In, found.Out, found.Received = r.In, r.Out, r.Received
	}
	if err != nil {
		found.Error = peer.Printable(strings.ReplaceAll(err.Error(), "\n", "; "), 900)
	}
	if context.Cause(ctx) != nil { // it was broken off, and measured something else with it
		return control.NodeProbe{}, context.Cause(ctx)
	}
	if err := w.probes.add(s.Probe, storeOf(s.Source), found, time.Now()); err != nil {
		w.log.Warn("cannot write the rates that were probed", "err", err)
	}
	return found, nil
}

// probeStore measures what the store of an object gives; of a prefix, by the first object below it that is large enough.
func (w *worker) probeStore(ctx context.Context, source string) (rate unit.Bandwidth, read unit.Bytes, err error) {
	store, key, err := w.open(ctx, source)
	if err != nil {
		return 0, 0, err
	}
	defer store.Close()
	store = retry.New(hasty{store, time.Now()}, retry.Policy{Patience: reachWithin, Max: time.Second, OnRetry: w.noteRetry})
	if (control.Spec{Source: source}).Several() {
		if key, err = firstBelow(ctx, store, key, probe.LeastObject); err != nil {
			return 0, 0, err
		}
	}
	o, err := store.Stat(ctx, key)
	if err != nil {
		return 0, 0, err
	}
	return probe.Store(ctx, store, o)
}

// probes is what the last probe has measured of this node's links, and the last
// one of each store of what that gives, kept in a file.
type probes struct {
	path string

	mu   sync.Mutex // guards kept
	kept probed
}

type probed struct {
	Probe  string         `json:"probe"` // its ID; empty: there was none
	At     time.Time      `json:"at"`
	In     unit.Bandwidth `json:"in"` // zero: not measured
	Out    unit.Bandwidth `json:"out"`
	Stores []probedStore  `json:"stores,omitempty"` // the oldest first
}

type probedStore struct {
	Store string         `json:"store"` // which, as storeOf names it
	At    time.Time      `json:"at"`
	Rate  unit.Bandwidth `json:"rate"`
}

// keepStores is of how many stores it is remembered what they give.
const keepStores = 20

// openProbes reads the file if there is one. One that cannot be read is begun anew.
func openProbes(path string) *probes {
	p := &probes{path: path}
	if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &p.kept) != nil {
		p.kept = probed{}
	}
	return p
}

// add notes what a step of a probe has found out. Of a link that is the most of all steps of one probe, and
// another one takes the place of the last as soon as it has measured anything.
func (p *probes) add(id, store string, found control.NodeProbe, now time.Time) error {
	if found.In <= 0 && found.Out <= 0 && found.Store <= 0 {
		return nil
	}
	now = now.UTC().Truncate(time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	k := &p.kept
	if found.In > 0 || found.Out > 0 {
		if k.Probe != id {
			k.Probe, k.At, k.In, k.Out = id, now, 0, 0
		}
		k.In, k.Out = max(k.In, found.In), max(k.Out, found.Out)
	}
	if found.Store > 0 {
		k.Stores = slices.DeleteFunc(k.Stores, func(s probedStore) bool { return s.Store == store })
		k.Stores = append(k.Stores, probedStore{store, now, found.Store})
		k.Stores = k.Stores[max(0, len(k.Stores)-keepStores):]
	}
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return pki.WriteFile(p.path, b)
}

// carries is what has been probed; of the store, that one.
func (p *probes) carries(store string) (c account.Capacities) {
	p.mu.Lock()
	defer p.mu.Unlock()
	capacity := func(rate unit.Bandwidth, at time.Time) account.Capacity {
		if rate <= 0 {
			return account.Capacity{}
		}
		return account.Capacity{Rate: rate, From: account.Probed, At: at}
	}
	c.In, c.Out = capacity(p.kept.In, p.kept.At), capacity(p.kept.Out, p.kept.At)
	for _, s := range p.kept.Stores {
		if s.Store == store {
			c.Store = capacity(s.Rate, s.At)
		}
	}
	return c
}
