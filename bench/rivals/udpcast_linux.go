package main

import (
	"context"
	"fmt"

	"github.com/freshet/freshet/bench"
)

// udpcast sends the object once to all by multicast, which the switch hands to
// everybody. The first node reads from the store and is the sender.
func udpcast() System {
	return System{
		Name: "udpcast", Programs: []string{"curl", "udp-sender", "udp-receiver"}, Version: bench.Says(bench.Debian("udpcast")),
		Tuning: "full duplex, which a switch allows; no limit of its own below the link's rate; one node alone reads from the store, so that its rate there is the most that all get",
		Run: func(_ context.Context, t *Trial) error {
			for i, node := range t.Nodes {
				script := fmt.Sprintf("udp-receiver --interface %s --nokbd --no-progress | %s", t.switchOf(node), t.Store(node))
				if i == 0 {
					script = fmt.Sprintf("%s | tee >(%s) | udp-sender --interface %s --min-receivers %d --nokbd --no-progress --full-duplex",
						t.Fetch(), t.Store(node), t.switchOf(node), len(t.Nodes)-1)
				}
				if err := t.Shell(node, script); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
