package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/internal/scenario"
	"github.com/freshet/freshet/unit"
)

const (
	storeHost, hubHost = "store", "hub"
	runWithin          = 10 * time.Minute
)

// inLab runs a scenario in the laboratory: its network, with a store and a control plane whose links are not limited.
func inLab(ctx context.Context, s *scenario.Scenario) (l line, err error) {
	ctx, cancel := context.WithTimeout(ctx, runWithin)
	defer cancel()
	spec, nodes, sites := network(s)
	args, err := storeArgs(s)
	if err != nil {
		return l, err
	}
	if err := bench.Sweep(bench.Memory, "freshet-simlab"); err != nil {
		return l, err
	}
	dir, err := os.MkdirTemp(bench.Memory, fmt.Sprintf("freshet-simlab-%d-", os.Getpid()))
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	net, err := lab.Up(spec)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	all, err := cluster.Start(ctx, cluster.Config{
		Lab: net, Hub: hubHost, Store: storeHost, Nodes: nodes, Dir: dir, StoreArgs: args, AgentArgsOf: sites,
	})
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	url, err := all.Put("object", s.Layout.Size, s.Seed)
	if err != nil {
		return l, err
	}
	var events sync.WaitGroup
	var failed error
	stop := make(chan struct{})
	events.Go(func() { failed = happen(s, net, all, stop) })
	var r cluster.Result
	l.CPU, err = bench.Busy(func() (err error) {
		r, err = all.Broadcast(ctx, url, all.Dest("{node}", "object"), "--algorithm", s.Algorithm, "--piece", fmt.Sprint(int64(s.Layout.Piece)))
		close(stop)
		events.Wait()
		return errors.Join(err, failed)
	})
	if err != nil {
		return l, err
	}
	dies := map[string]bool{}
	for _, e := range s.Events {
		dies[s.Network.Hosts[e.Host].Name] = e.Do == scenario.Die
	}
	for _, n := range r.Nodes {
		if n.State != "done" && !dies[n.Name] {
			return l, fmt.Errorf("%s is %s: %s", n.Name, n.State, n.Error)
		}
	}
	l.Makespan = r.MakespanS
	return l, nil
}

// network is that of a scenario, for the laboratory.
func network(s *scenario.Scenario) (spec lab.Spec, nodes []string, sites map[string][]string) {
	spec.Seed, sites = s.Seed+1, map[string][]string{}
	for _, w := range s.Network.Switches {
		spec.Switches = append(spec.Switches, w.Name)
	}
	for _, h := range s.Network.Hosts {
		nodes = append(nodes, h.Name)
		if h.Site != "" {
			sites[h.Name] = []string{"--site", h.Site}
		}
	}
	spec.Hosts = append([]string{hubHost, storeHost}, nodes...)
	at := s.Store.At
	if at == "" {
		at = spec.Switches[0]
	}
	spec.Links = []lab.Link{{A: hubHost, B: at}, {A: storeHost, B: at}}
	for _, l := range s.Network.Links {
		spec.Links = append(spec.Links, lab.Link{A: l.A, B: l.B, Rate: l.Rate, Back: l.Back, Delay: l.Delay})
	}
	return spec, nodes, sites
}

// storeArgs are the store's rates as flags: the same for all nodes, since who draws which would be chance.
func storeArgs(s *scenario.Scenario) (args []string, err error) {
	rate := func(flag string, r unit.Bandwidth) {
		if r > 0 {
			args = append(args, flag, fmt.Sprintf("%gMbit", float64(r)*8/1e6))
		}
	}
	for i, r := range s.Store.PerClient {
		if r != s.Store.PerClient[0] || s.Store.PerConnection[i].Mean() > 0 {
			return nil, errors.New("in the laboratory the store has one per_client for all, and no per_connection")
		}
	}
	rate("--rate-per-client", s.Store.PerClient[0])
	rate("--rate-total", s.Store.Total)
	return args, nil
}

// happen does what a scenario's events say, at their times, until stop is closed.
func happen(s *scenario.Scenario, net *lab.Lab, all *cluster.Cluster, stop <-chan struct{}) error {
	began := time.Now()
	for _, e := range s.Events {
		t := time.NewTimer(time.Until(began.Add(e.At)))
		select {
		case <-t.C:
		case <-stop:
			t.Stop()
			return fmt.Errorf("the job was over before %s could %s after %v", s.Network.Hosts[e.Host].Name, e.Do, e.At)
		}
		name := s.Network.Hosts[e.Host].Name
		var err error
		switch e.Do {
		case scenario.Die:
			err = all.Node(name).Kill()
		case scenario.Slow:
			for _, l := range s.Network.Links {
				if l.A == name || l.B == name {
					err = errors.Join(err, net.SetRate(l.A, l.B, e.Rate, e.Rate))
				}
			}
		default:
			err = fmt.Errorf("%s cannot %s in the laboratory", name, e.Do)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
