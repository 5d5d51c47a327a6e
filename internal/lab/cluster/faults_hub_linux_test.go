package cluster_test

import (
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/lab/cluster"
)

// The control plane is killed at each stage of a job and started again, stopped for a while, or cut off. Data
// does not pass through it, so the nodes go on meanwhile; the command that waits says that it
// is away and comes back by itself.

// interrupted kills the control plane, waits as away says, and starts it again.
func (s *stage) interrupted(wait func() cluster.Result, away func()) cluster.Result {
	s.Helper()
	s.must(s.c.Hub().Kill())
	away()
	s.must(s.c.Hub().Restart(s.ctx))
	return wait()
}

func (s *stage) pause(d time.Duration) func() {
	return func() {
		select {
		case <-time.After(d):
		case <-s.ctx.Done():
		}
	}
}

// What was only being prepared has not begun anywhere: it fails, and says that it can be submitted again.
func TestHubKilledWhilePreparing(t *testing.T) {
	s := set(t, nil)
	g := &gateway{head: func(n int) { // the first one asks what the object is, the others come from each node's preparation
		if n > 0 {
			s.pause(3 * time.Second)()
		}
	}}
	wait := s.broadcast(s.through(g))
	s.until("it is being prepared", func(j freshet.Job) bool { return j.State == freshet.Preparing })
	again := "control plane restarted while the job was being prepared; submit it again"
	s.ended(s.interrupted(wait, s.pause(0)), map[string]string{"n1": again, "n2": again, "n3": again})
	_, err := s.c.Run(s.ctx, "nodes", "--up", "3", "--wait", "30s") // each comes back in its own time
	s.must(err)
	s.ended(s.broadcast(s.url)(), nil)
}

func TestHubKilledAtTheStart(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("it runs", func(j freshet.Job) bool { return j.State == freshet.Running })
	s.ended(s.interrupted(wait, s.pause(time.Second)), nil)
}

func TestHubKilledInPhase1(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	r := s.interrupted(wait, s.pause(time.Second))
	s.ended(r, nil)
	if !regexp.MustCompile(`(?s)lost the control plane .*, connecting again.*the control plane is back`).MatchString(r.Stderr) {
		s.Errorf("people are told %q, want that the control plane was away and is back", r.Stderr)
	}
}

func TestHubKilledInPhase2(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("phase 2", exchanging)
	s.ended(s.interrupted(wait, s.pause(time.Second)), nil)
}

// The nodes end their work while nobody is there to be told.
func TestHubKilledBeforeTheEnd(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("phase 2", exchanging)
	s.ended(s.interrupted(wait, func() {
		for _, n := range s.nodes {
			for !s.landed(n) {
				if s.ctx.Err() != nil {
					s.Fatalf("%s does not end its part without the control plane", n)
				}
				s.pause(100 * time.Millisecond)()
			}
		}
	}), nil)
}

// It is stopped for longer than a node may be silent, and has heard none when it goes on.
func TestHubPaused(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	s.must(s.c.Hub().Signal(syscall.SIGSTOP))
	s.pause(15 * time.Second)()
	s.must(s.c.Hub().Signal(syscall.SIGCONT))
	s.ended(wait(), nil)
}

// It hears no node for longer than one may be silent.
func TestHubCutOff(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	s.must(s.lab.Partition("hub"))
	s.pause(15 * time.Second)()
	s.must(s.lab.Heal())
	s.ended(wait(), nil)
}
