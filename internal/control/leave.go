package control

import "context"

// Leave tells the hub that this node takes no more jobs, and returns when those
// that run here have ended, or ctx has. Who wants the node to end then ends Run:
// what still runs fails with ErrStopped, and the hub is told.
func (a *Agent) Leave(ctx context.Context) {
	m := a.current.Load()
	if m == nil {
		return
	}
	m.mu.Lock()
	if m.idle == nil {
		m.leaving, m.idle = true, make(chan struct{})
		m.noteIdle()
	}
	idle := m.idle
	m.mu.Unlock()
	poke(m.urge)
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// noteIdle tells Leave when nothing runs any more. m.mu is held.
func (m *member) noteIdle() {
	if m.idle == nil {
		return
	}
	for _, p := range m.parts {
		if p.running {
			return
		}
	}
	select {
	case <-m.idle:
	default:
		close(m.idle)
	}
}

// Leave makes the hub take no more jobs. What runs goes on.
func (h *Hub) Leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaving = true
}

func (h *Hub) isLeaving() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leaving
}
