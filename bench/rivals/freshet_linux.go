package main

import (
	"context"
)

// ours is freshet with one of its algorithms. Its agents are up beforehand, as
// they are in a cluster; the clock runs from the start of "freshet broadcast".
// A file appears at its destination whole, verified and synced.
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
		for _, f := range t.Files {
			if err := t.Start(hubHost, t.all.Exe(), "broadcast", t.source+"/"+f, t.Path("{node}", f), "--algorithm", algorithm, "--json", "--admin", t.all.Admin()); err != nil {
				return err
			}
		}
		return nil
	}
	return s
}
