package control

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Census is what a control plane counts.
type Census struct {
	Nodes  map[string]int // by state: up, down
	Jobs   map[State]int  // that are remembered
	Tokens int            // with which nodes can join
}

// Census counts. The error is that the records cannot be read.
func (h *Hub) Census(ctx context.Context) (Census, error) {
	c := Census{Nodes: map[string]int{"up": 0, "down": 0, "leaving": 0}, Jobs: map[State]int{Preparing: 0, Running: 0, Done: 0, Failed: 0, Cancelled: 0}}
	for _, n := range h.views() {
		c.Nodes[n.state()]++
	}
	h.mu.Lock()
	for _, d := range h.active {
		c.Jobs[d.latest.Load().State]++
	}
	for _, s := range h.outcomes {
		c.Jobs[s]++
	}
	h.mu.Unlock()
	now := time.Now()
	err := all(ctx, h.store.tokens, func(_ string, value []byte, _ uint64) {
		var r tokenRecord
		if json.Unmarshal(value, &r) == nil && r.Left > 0 && now.Before(r.Expires) {
			c.Tokens++
		}
	})
	if err != nil {
		return c, fmt.Errorf("count the tokens: %w", err)
	}
	return c, nil
}

// state is a node's state in one word.
func (n NodeView) state() string {
	switch {
	case !n.Up:
		return "down"
	case n.Leaving:
		return "leaving"
	}
	return "up"
}
