package control

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// awayGrace is how long the hub may be away before an agent calls itself
// unhealthy: a restarted hub is back before.
const awayGrace = 30 * time.Second

// Healthy says whether the hub has heard this agent lately.
func (a *Agent) Healthy(context.Context) error {
	m := a.current.Load()
	if m == nil {
		return errors.New("not connected to the control plane")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.beaten.IsZero() || time.Since(m.beaten) > awayGrace {
		return errors.New("the control plane does not answer")
	}
	return nil
}

// Dirs are the directories that the control plane writes to.
func (h *Hub) Dirs() []string {
	if h.config.NATS != "" {
		return []string{h.config.State}
	}
	return []string{h.config.State, h.records()}
}

// Healthy says whether the control plane's records answer.
func (h *Hub) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, err := h.store.nodes.Status(ctx); err != nil {
		return fmt.Errorf("the control plane's records do not answer: %s", oneLine(err.Error()))
	}
	return nil
}
