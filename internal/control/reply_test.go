package control

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// The hub answers with its own rights. A node that names a stream's interface,
// a record or another's inbox as the place for the answer gets none anywhere.
func TestAnswersGoOnlyToTheAsker(t *testing.T) {
	h := newHub(t)
	ctx := testContext(t)
	n1, n2 := joined(t, h, "n1", Registration{}), joined(t, h, "n2", Registration{})
	if _, _, err := h.NewToken(ctx, 1, 0); err != nil {
		t.Fatal(err)
	}
	heard, err := h.nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	nc, _ := raw(t, h.addr, n1.creds)
	bad := []string{
		"$JS.API.STREAM.DELETE.KV_" + h.store.jobs.Bucket(), "$JS.API.STREAM.PURGE.KV_" + h.store.jobs.Bucket(),
		"$KV." + h.store.nodes.Bucket() + ".n2", inbox("node", "n2") + ".x", inbox("admin", "admin") + ".x", "_INBOX.x", "down.n2.start",
		inbox("node", "n1") + "0.x",
	}
	for _, reply := range bad {
		for _, verb := range []string{"beat", "register", "nonsense", "beat.more"} {
			if err := nc.PublishMsg(&nats.Msg{Subject: "up.n1." + verb, Reply: reply, Data: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	own, err := nc.SubscribeSync(inbox("node", "n1") + ".own")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest("up.n1.beat", inbox("node", "n1")+".own", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := own.NextMsg(10 * time.Second); err != nil { // messages of one client are taken in order
		t.Fatalf("a proper request is not answered: %v", err)
	}
	refused := map[string]bool{}
	for _, reply := range bad {
		refused[reply] = true
	}
	for {
		m, err := heard.NextMsg(200 * time.Millisecond)
		if err != nil {
			break
		}
		if refused[m.Subject] {
			t.Errorf("the hub answered to %s", m.Subject)
		}
	}
	if nodes, err := h.store.nodes.Get(ctx, "n2"); err != nil || len(nodes.Value()) < 10 {
		t.Errorf("the record of n2 is %v, %v", nodes, err)
	}
	for _, n := range []*testAgent{n1, n2} {
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	}
}

// A hub listens to a node that floods it for a few messages a second, and for fewer if
// they are long.
func TestStatusFlood(t *testing.T) {
	for _, tt := range []struct{ bytes, least, most int }{{0, 80, 400}, {maxUp, 4, 24}} {
		n := &node{}
		heard := 0
		for range 10_000 {
			if n.patient(tt.bytes) {
				heard++
			}
		}
		if heard < tt.least || heard > tt.most {
			t.Errorf("%d of 10,000 messages of %d bytes at once were heeded, want %d to %d", heard, tt.bytes, tt.least, tt.most)
		}
	}
}
