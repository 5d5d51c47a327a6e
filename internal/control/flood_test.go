package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestFloodOfANode: a node that says as much as it can, whatever it says, does not
// keep the control plane from hearing the others.
func TestFloodOfANode(t *testing.T) {
	noLeaks(t)
	var many beat
	for i := range 8000 {
		many.Jobs = append(many.Jobs, jobStatus{Job: fmt.Sprint(i)})
	}
	long, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, verb string
		body       []byte
	}{
		{"beats", "beat", long},
		{"small beats", "beat", []byte("{}")},
		{"renewals", "renew", bytes.Repeat([]byte(" "), 100_000)},
		{"the list of the removed", "revoked", nil},
		{"what nobody knows", "nonsense", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
			n1, n2 := joined(t, h, "n1", Registration{}), joined(t, h, "n2", Registration{})
			var flooding []*nats.Conn // all that it may have open besides its agent's
			for range 3 {
				nc, _ := raw(t, h.addr, n1.creds, nats.FlusherTimeout(time.Second)) // it is read slowly, and is not to wait for that at its end
				flooding = append(flooding, nc)
			}
			other, _ := raw(t, h.addr, n2.creds)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			defer wg.Wait()
			defer func() {
				close(stop)
				for _, nc := range flooding { // one may wait to be read for long
					nc.Close()
				}
			}()
			for _, nc := range flooding {
				wg.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						if nc.PublishMsg(&nats.Msg{Subject: "up.n1." + tt.verb, Reply: inbox("node", "n1") + ".x", Data: tt.body}) != nil {
							return
						}
					}
				})
			}
			const patience = slowdown * lostAfter // then a job would give it up
			asked, longest := 0, time.Duration(0)
			for began := time.Now(); time.Since(began) < time.Second; time.Sleep(20 * time.Millisecond) {
				asked++
				sent := time.Now()
				if _, err := other.Request("up.n2.beat", []byte("{}"), patience); err != nil {
					t.Errorf("beat %d of another node was not heard in %v: %v", asked, patience, err)
				}
				longest = max(longest, time.Since(sent))
			}
			t.Logf("%d beats of another node, the longest took %v", asked, longest)
		})
	}
}
