package main

import (
	"context"

	"github.com/freshet/freshet/bench/trial"
)

// ours is freshet with one of its algorithms. Its agents are up beforehand, as
// they are in a cluster; the clock runs from the start of "freshet broadcast".
// A file appears at its destination whole, verified and synced; of several none does before all can.
func ours(algorithm, security string) System {
	s := System{
		Name:   nameOf(algorithm, security),
		Agents: []string{"--security", security},
		Tuning: "as it comes",
	}
	if security != "tls" {
		s.Tuning = "--security " + security + ": data in plain TCP, as the rivals send it"
	}
	s.Run = func(_ context.Context, t *Trial) error {
		from, to := t.source+"/", t.Dir("{node}") // all of them in one job
		if len(t.Files) == 1 {
			from, to = t.source+"/"+t.Files[0], t.Path("{node}", t.Files[0])
		}
		return t.Start(trial.Hub, t.Cluster.Exe(), "broadcast", from, to, "--algorithm", algorithm, "--json", "--admin", t.Cluster.Admin())
	}
	return s
}
