package control

import (
	"context"
	"testing"
	"time"
)

// preparing is a job of which n1 has said that it can take part, and n2 has not yet answered; answer makes it.
func preparing(t *testing.T) (c *Client, n1, n2 *testAgent, job Job, answer func()) {
	t.Helper()
	h := newHub(t)
	n1, n2 = joined(t, h, "n1", Registration{}), joined(t, h, "n2", Registration{})
	n2.hold = make(chan struct{})
	c = h.client(t, ClientOptions{})
	job, err := c.Submit(testContext(t), aSpec)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "n1 is prepared", func() bool {
		m := n1.agent.current.Load()
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.parts[job.ID] != nil
	})
	return c, n1, n2, job, func() { close(n2.hold) }
}

// TestLeaveWhilePrepared waits for a job that the node has said it takes part in, though it has not begun.
func TestLeaveWhilePrepared(t *testing.T) {
	c, n1, n2, job, answer := preparing(t)
	left := make(chan struct{})
	go func() {
		defer close(left)
		n1.agent.Leave(testContext(t))
	}()
	await(t, "the hub has heard that n1 leaves", func() bool {
		nodes, err := c.Nodes(testContext(t))
		return err == nil && nodes[0].Leaving
	})
	answer()
	n1.awaitBegun(t, job.ID)
	n2.awaitBegun(t, job.ID)
	select {
	case <-left:
		t.Error("the node has left while its part runs")
	default:
	}
	n1.finish <- done
	n2.finish <- done
	<-left
	if last := watched(t, c, job.ID); last.State != Done {
		t.Errorf("the job is %s: %s", last.State, last.Error)
	}
}

// TestStopWhilePrepared: a node that stops before the job begins says so, and the others begin without it.
func TestStopWhilePrepared(t *testing.T) {
	c, n1, n2, job, answer := preparing(t)
	now, cancel := context.WithTimeout(testContext(t), time.Millisecond)
	defer cancel()
	n1.agent.Leave(now)
	if err := n1.stop(); err != nil {
		t.Error(err)
	}
	answer()
	n2.awaitBegun(t, job.ID)
	n2.finish <- done
	last := watched(t, c, job.ID)
	if got := last.Nodes[0].Error; got != ErrStopped.Error() || last.Nodes[1].State != Done {
		t.Errorf("n1: %q, n2: %s; want that n1 was %v", got, last.Nodes[1].State, ErrStopped)
	}
}

// TestLeaveOfACancelledJob does not wait for a start that will not come.
func TestLeaveOfACancelledJob(t *testing.T) {
	c, n1, _, job, answer := preparing(t)
	defer answer()
	left := make(chan struct{})
	go func() {
		defer close(left)
		n1.agent.Leave(testContext(t))
	}()
	if _, err := c.Cancel(testContext(t), job.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case <-left:
	case <-time.After(20 * time.Second):
		t.Error("the node waits for a job that was cancelled")
	}
}

// TestLeaveOfOneThatIsRemoved ends with the node.
func TestLeaveOfOneThatIsRemoved(t *testing.T) {
	c, n1, _, _, answer := preparing(t)
	defer answer()
	left := make(chan struct{})
	go func() {
		defer close(left)
		n1.agent.Leave(testContext(t))
	}()
	if err := c.RemoveNode(testContext(t), "n1"); err != nil {
		t.Fatal(err)
	}
	if err := n1.wait(); err == nil {
		t.Error("the agent of a removed node ends without a word")
	}
	select {
	case <-left:
	case <-time.After(20 * time.Second):
		t.Error("the node waits for a job that it cannot take part in any more")
	}
}
