package control

import "context"

// Leave tells the hub that this node takes no more jobs, and returns when those
// that it has said it can take part in have ended, or ctx has: one that was prepared may be
// starting on the others. Who wants the node to end then ends Run: what has not ended
// fails with ErrStopped, and the hub is told.
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

// noteIdle tells Leave when nothing runs any more, or is still to be started. m.mu is held.
func (m *member) noteIdle() {
	if m.idle == nil {
		return
	}
	for _, p := range m.parts {
		if p.running || p.waits() {
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

// close makes the member begin nothing more. What was prepared only ends here, so that the hub need not find out by our silence.
func (m *member) close(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, p := range m.parts {
		if p.waits() {
			p.cancel, p.status = func(error) {}, NodeStatus{Name: m.name, State: Failed, Error: why.Error()}
		}
	}
	m.noteIdle()
}

func (h *Hub) isLeaving() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leaving
}
