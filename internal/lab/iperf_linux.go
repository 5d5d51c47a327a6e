package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"github.com/freshet/freshet/unit"
)

// Iperf is the payload that iperf3, a judge from outside, sees arrive over one
// TCP connection from a host to another, within two seconds after one to get
// up to speed. What else runs in the two hosts shares their links with it. If
// the client cannot reach the server, it tries again until ctx ends, or half a
// minute is over.
func (l *Lab) Iperf(ctx context.Context, from, to string) (unit.Bandwidth, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := l.host(to); err != nil {
		return 0, err
	}
	server := exec.CommandContext(ctx, "iperf3", "--server", "--one-off")
	if err := l.Start(to, server); err != nil {
		return 0, fmt.Errorf("%w; scripts/setup test installs iperf3", err)
	}
	served := make(chan struct{})
	go func() { // ends with the server, which cancel kills
		server.Wait()
		close(served)
	}()
	defer func() { cancel(); <-served }()
	for {
		var out bytes.Buffer
		client := exec.CommandContext(ctx, "iperf3", "--client", l.Addr(to).String(), "--time", "2", "--omit", "1", "--json")
		client.Stdout = &out
		if err := l.Start(from, client); err != nil {
			return 0, err
		}
		failed := client.Wait()
		var said struct {
			Error string
			End   struct {
				Received struct {
					Bits float64 `json:"bits_per_second"`
				} `json:"sum_received"`
			}
		}
		if err := json.Unmarshal(out.Bytes(), &said); err == nil && failed == nil && said.End.Received.Bits > 0 {
			return unit.Bandwidth(said.End.Received.Bits) * unit.BitPerSecond, nil
		}
		select { // the server may not listen yet
		case <-ctx.Done():
			return 0, fmt.Errorf("lab: iperf3 from %s to %s: %s (%w)", from, to, said.Error, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
