package main

import (
	"context"
	"fmt"

	"github.com/freshet/freshet/bench"
)

// chain is a pipeline of all nodes: the first one reads from the store, and
// each writes what it gets and hands it on to the next one.
func chain() System {
	return System{
		Name: "chain", Programs: []string{"curl", "socat", "tee"}, Version: bench.Says(bench.Debian("socat"), bench.Debian("curl")),
		Tuning: "socat with 64 KiB at a time, instead of 8 KiB; one node alone reads from the store, so that its rate there is the most that all get",
		Run: func(_ context.Context, t *Trial) error {
			const port = 7000
			for i, node := range t.Nodes {
				from := t.Fetch()
				if i > 0 {
					from = fmt.Sprintf("socat -u -b 65536 TCP-LISTEN:%d,reuseaddr -", port)
				}
				script := fmt.Sprintf("%s | %s", from, t.Store(node))
				if i < len(t.Nodes)-1 {
					script = fmt.Sprintf("%s | tee >(%s) | socat -u -b 65536 - TCP:%v:%d,retry=1000,interval=0.02", from, t.Store(node), t.Lab.Addr(t.Nodes[i+1]), port)
				}
				if err := t.Shell(node, script); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
