package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
)

// A node is removed while it works: it ends and says so, its job goes on
// without it, the other nodes do not speak with it, also when they were
// restarted while the hub is away.
func TestRemoveWhileRunning(t *testing.T) {
	noLeaks(t)
	state := t.TempDir()
	h := startHub(t, Config{State: state}, "127.0.0.1:0")
	agents := threeNodes(t, h)
	stayer, victim := agents[0], agents[1]
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	job := runs(t, c, agents...)
	refuses := func(a *testAgent) error { // the removed node calls a
		port, err := peer.Listen("127.0.0.1:0", peer.Options{Credentials: victim.creds, Log: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer port.Close()
		_, withdraw := a.port.Offer("j")
		defer withdraw()
		conn, err := port.Dial(ctx, a.addr, a.name, "j")
		if err == nil {
			conn.Close()
			return errors.New("it was let in")
		}
		if r, ok := errors.AsType[*peer.Refused](err); ok && r.Code == peer.Removed {
			return nil
		}
		return err
	}
	others := []*testAgent{stayer, agents[2]}
	var open []*peer.Conn // of the victim to the others
	for _, a := range others {
		conns, withdraw := a.port.Offer("open")
		defer withdraw()
		dialed := make(chan error, 1)
		go func() { // the answer is waited for
			theirs, err := victim.port.Dial(ctx, a.addr, a.name, "open")
			if err == nil {
				t.Cleanup(func() { theirs.Close() })
			}
			dialed <- err
		}()
		select {
		case conn := <-conns:
			defer conn.Close()
			open = append(open, conn)
		case <-ctx.Done():
		}
		if err := <-dialed; err != nil {
			t.Fatal(err)
		}
	}
	if err := c.RemoveNode(ctx, "n2"); err != nil {
		t.Fatal(err)
	}
	removed := time.Now()
	const promised = 5 * time.Second // docs/security.md
	for i, a := range others {
		stop := time.AfterFunc(2*promised, func() { open[i].Close() })
		_, _, err := open[i].ReadFrame()
		stop.Stop()
		if took := time.Since(removed); !errors.Is(err, peer.ErrRemoved) || took > promised {
			t.Errorf("%s: the removed node's connection ended after %v with %v, want %v within %v", a.name, took, err, peer.ErrRemoved, promised)
		}
		if err := refuses(a); err != nil {
			t.Errorf("%s does not refuse the removed node after %v: %v", a.name, time.Since(removed), err)
		}
	}
	if err := c.RemoveNode(ctx, "n2"); !errors.Is(err, ErrNoSuchNode) {
		t.Errorf("removed twice: %v", err)
	}
	if err := victim.wait(); !errors.Is(err, ErrRemoved) || !strings.Contains(err.Error(), "node n2 was removed from the cluster") {
		t.Errorf("the removed agent ended with %v", err)
	}
	stayer.finish <- done
	agents[2].finish <- done
	job = watched(t, c, job.ID)
	if n := job.Nodes[1]; n.State != Failed || n.Error != "removed from the cluster" {
		t.Errorf("the removed node's part is %+v", n)
	}
	if job.Nodes[0].State != Done || job.Nodes[2].State != Done {
		t.Errorf("the others' parts are %+v", job.Nodes)
	}

	kept := filepath.Join(stayer.files, "revoked.json")
	await(t, "n1 has the list", func() bool {
		keys, err := LoadRevoked(kept)
		return err == nil && len(keys) == 1 && keys[0] == victim.creds.Key()
	})
	if err := refuses(stayer); err != nil {
		t.Errorf("n1 does not refuse the removed node: %v", err)
	}

	// The hub dies; what it had on disk holds when it is back.
	h.stop()
	h = startHub(t, Config{State: state}, h.addr)
	a := startAgent(t, h.addr, victim.creds, newFakeRunner(), Registration{})
	if err := a.stop(); !errors.Is(err, ErrRemoved) {
		t.Errorf("another hub lets the removed node in: %v", err)
	}
	fresh := joined(t, h, "n4", Registration{}) // learns of it although it was not there
	await(t, "n4 has the list", func() bool { return refuses(fresh) == nil })

	// The same name with a new token is another node.
	again := joined(t, h, "n2", Registration{})
	if again.creds.Key() == victim.creds.Key() {
		t.Error("n2 joined with its old key")
	}
	conns, withdraw := stayer.port.Offer("again")
	defer withdraw()
	go func() { // ended by the connection's close, or the test's context
		if c, err := again.port.Dial(ctx, stayer.addr, stayer.name, "again"); err == nil {
			c.Close()
		}
	}()
	select {
	case c := <-conns:
		c.Close()
	case <-time.After(20 * time.Second):
		t.Error("n2 is refused although it joined anew")
	}
}

// What an agent has kept is in force before it hears from anybody, and a
// damaged file is not taken for an empty one.
func TestLoadRevoked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "revoked.json")
	if keys, err := LoadRevoked(path); len(keys) != 0 || err != nil {
		t.Errorf("no file: got %v, %v", keys, err)
	}
	for _, s := range []string{"", "{", `[{"key":1}]`} {
		os.WriteFile(path, []byte(s), 0o600)
		if _, err := LoadRevoked(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: got %v", s, err)
		}
	}
}

func TestRevocations(t *testing.T) {
	now := time.Now()
	a, b := revokedKey{"aa", "n1", now.Add(time.Hour)}, revokedKey{"bb", "n2", now.Add(-25 * time.Hour)}
	if v := (revocations{}).version(); v != "" {
		t.Errorf("version of nothing is %q", v)
	}
	one, two := revocations{a}, revocations{a, b}
	if one.version() == two.version() || one.version() == "" || one.version() != (revocations{a}).version() {
		t.Errorf("versions %q and %q do not tell the lists apart", one.version(), two.version())
	}
	if a.over(now) || !b.over(now) {
		t.Error("an entry lasts until a day after its certificate")
	}
}

// The hub forgets what no longer matters.
func TestSweepRevoked(t *testing.T) {
	h := newHub(t)
	joined(t, h, "n1", Registration{})
	ctx := testContext(t)
	if err := h.removeNode(ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	count := func() (memory, disk int) {
		l := map[string]bool{}
		all(ctx, h.store.revoked, func(key string, _ []byte, _ uint64) { l[key] = true })
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.revoked), len(l)
	}
	h.sweepRevoked(ctx, time.Now().Add(365*24*time.Hour)) // expired, and some clock may be slow
	if m, d := count(); m != 1 || d != 1 {
		t.Errorf("%d in memory and %d on disk after a year, want 1 and 1", m, d)
	}
	h.sweepRevoked(ctx, time.Now().Add(367*24*time.Hour))
	if m, d := count(); m != 0 || d != 0 || h.revokedVersion != "" {
		t.Errorf("%d in memory and %d on disk two days later, want none", m, d)
	}
}

// The node in the hub's own process would take the hub with it.
func TestOwnNodeIsNotRemoved(t *testing.T) {
	h := newHub(t)
	if _, err := h.Enroll(testContext(t), "n1", filepath.Join(t.TempDir(), "node.pem")); err != nil {
		t.Fatal(err)
	}
	if err := h.removeNode(testContext(t), "n1"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--no-agent") {
		t.Errorf("got %v", err)
	}
}

func TestTokenListAndWithdraw(t *testing.T) {
	h := newHub(t)
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	if list, err := c.Tokens(ctx); err != nil || len(list) != 0 {
		t.Fatalf("got %v, %v", list, err)
	}
	began := time.Now()
	text, expires, err := c.NewToken(ctx, 3, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Join(ctx, JoinConfig{Hub: h.addr, Token: text, Name: "n1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Join(ctx, JoinConfig{Hub: h.addr, Token: text, Name: "n1"}); !errors.Is(err, ErrNameTaken) {
		t.Fatal(err)
	}
	other, _, err := c.NewToken(ctx, 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Tokens(ctx)
	if err != nil || len(list) != 2 {
		t.Fatalf("got %v, %v", list, err)
	}
	got := list[1] // newest first
	if got.Left != 2 || got.UsedBy != "n1" || got.Used.Before(began) || got.Made.Before(began) || !got.Expires.Equal(expires) {
		t.Errorf("got %+v, want 2 uses left, the last by n1", got)
	}
	if list[0].UsedBy != "" || list[0].Left != 1 {
		t.Errorf("got %+v, want a new one", list[0])
	}
	for _, prefix := range []string{"", "zz", got.ID + "0"} {
		if _, err := c.WithdrawToken(ctx, prefix); !errors.Is(err, ErrNoSuchToken) {
			t.Errorf("%q: got %v", prefix, err)
		}
	}
	if w, err := c.WithdrawToken(ctx, strings.ToUpper(got.ID[:13])); err != nil || w.ID != got.ID {
		t.Fatalf("got %+v, %v", w, err)
	}
	if _, err := Join(ctx, JoinConfig{Hub: h.addr, Token: text, Name: "n2"}); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("joined with a token that was withdrawn: %v", err)
	}
	if _, err := Join(ctx, JoinConfig{Hub: h.addr, Token: other, Name: "n2"}); err != nil {
		t.Errorf("the other token: %v", err)
	}
	h.changeToken(ctx, got.ID, func(r *tokenRecord) error { r.Left++; return nil }) // as a join would that fails late
	if list, _ := c.Tokens(ctx); len(list) != 1 {
		t.Errorf("a use that is given back brings the token back: %+v", list)
	}
}

// Certificates of monitors and of the admin are withdrawn, and the hub forgets
// those that have expired.
func TestWithdraw(t *testing.T) {
	h := newHub(t)
	agent := joined(t, h, "n1", Registration{})
	ctx := testContext(t)
	c := h.client(t, ClientOptions{})
	first, err := LoadAdmin(h.admin)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Monitor(ctx, "p")
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.Monitor(ctx, "q")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WithdrawMonitor(ctx, "x"); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "p, q") {
		t.Errorf("no such monitor: %v", err)
	}
	if err := c.WithdrawMonitor(ctx, "p"); err != nil {
		t.Fatal(err)
	}
	if !h.Revoked(p.Key()) || h.Revoked(q.Key()) || h.Revoked(first.Credentials.Key()) {
		t.Error("want p's certificate withdrawn and no other")
	}
	await(t, "n1 goes by it", func() bool { return agent.port.Revoked(p.Key()) })
	if agent.port.Revoked(q.Key()) {
		t.Error("n1 takes q's certificate for withdrawn")
	}

	path, err := c.WithdrawAdmin(ctx)
	if err != nil || path != h.admin {
		t.Fatalf("got %q, %v, want %q", path, err, h.admin)
	}
	await(t, "the connection that was open is cut off", func() bool {
		_, err := c.Nodes(ctx)
		return errors.Is(err, ErrRefused) && strings.Contains(err.Error(), "was withdrawn")
	})
	if old, err := Connect(ctx, first, ClientOptions{}); !errors.Is(err, ErrRefused) {
		t.Errorf("the credential that was withdrawn: %v, want ErrRefused", err)
		if err == nil {
			old.Close()
		}
	}
	if _, err := h.client(t, ClientOptions{}).Nodes(ctx); err != nil {
		t.Errorf("the new credential: %v", err)
	}

	count := func() (n int) {
		for _, role := range []pki.Role{pki.Admin, pki.Monitor} {
			by, err := h.issuedTo(ctx, role)
			if err != nil {
				t.Fatal(err)
			}
			n += len(by)
		}
		return n
	}
	if n := count(); n != 2 {
		t.Errorf("%d certificates are on record, want q's and the new admin's", n)
	}
	h.sweepRevoked(ctx, time.Now().Add(367*24*time.Hour))
	if n := count(); n != 0 {
		t.Errorf("%d certificates are on record when all have expired, want none", n)
	}
}

// Jobs that take no events, since their records cannot be written, keep nobody waiting while a node is removed: neither other jobs, nor
// who removes it, nor a node that joins.
func TestRemovalKeepsNobodyWaiting(t *testing.T) {
	h := newHub(t)
	ctx := testContext(t)
	joined(t, h, "n1", Registration{}).stop()
	var stuck, free []*driven
	for i := range 16 {
		d := newDriven(Job{ID: fmt.Sprint(i), State: Running})
		if i%2 == 0 {
			free = append(free, d)
		} else {
			stuck = append(stuck, d)
			for range cap(d.events) {
				d.offer(ticked{})
			}
		}
		h.mu.Lock()
		h.active[fmt.Sprint(i)] = d
		h.mu.Unlock()
	}
	removed := make(chan error, 1)
	go func() { removed <- h.removeNode(ctx, "n1") }() // waited for below
	await(t, "n1 is removed", func() bool { return len(h.views()) == 0 })
	for _, d := range free {
		await(t, "other jobs hear of it", func() bool { return len(d.events) > 0 })
	}
	joined(t, h, "n2", Registration{})
	if err := <-removed; err != nil {
		t.Error(err)
	}
	for _, d := range stuck {
		close(d.done)
	}
	for i := range 16 {
		h.release(fmt.Sprint(i))
	}
}
