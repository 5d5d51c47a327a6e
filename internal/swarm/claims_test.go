package swarm

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// Members that are not there yet are told of at once, however many: a message for each would be more than anybody may leave unread.
func TestManyAreUnheard(t *testing.T) {
	swarmOf(t, 2, unit.MiB, steal.Stream, func(b *bench) {
		const nodes = 10_000
		c := b.configs[0]
		c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
		for i := 2; i < nodes; i++ {
			c.Members = append(c.Members, Member{Name: nodeName(i), Addr: nodeName(i)})
		}
		n := newNode(c)
		l := &link{rank: 1, out: newOutbox(n.mostUnread())}
		n.neighbours[1].link = l
		n.ex.Up(1)
		n.now = n.neighbours[2].lost.Add(2 * unheardAfter)
		n.tick(b.t.Context())
		said := 0
		for _, m := range l.out.messages {
			if m.Kind != kindUnheard {
				continue
			}
			ranks, err := parseUnheard(m.Payload, nodes)
			if err != nil {
				t.Fatal(err)
			}
			said += len(ranks)
		}
		if said != nodes-2 || len(n.deaf) > 0 || len(l.out.messages) > 10 {
			t.Errorf("%d members are said not to be heard in %d messages, want %d in a few; deaf are %v", said, len(l.out.messages), nodes-2, n.deaf)
		}
	})
}

// What one says of another's claims is no sign that this one gets on; nor is what it says itself, again and again.
func TestClaimsAreNoProgress(t *testing.T) {
	for _, kind := range []byte{kindTook, kindTookImports} {
		swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			for i := range c.Members {
				c.Members[i].Site = []string{"here", "here", "here", "there"}[i]
			}
			n := newNode(c)
			l := &link{rank: 1, out: newOutbox(n.mostUnread())}
			n.neighbours[1].link = l
			n.ex.Up(1)
			claim := func(rank int) (gained bool) {
				t.Helper()
				n.now = n.now.Add(time.Second)
				if err := n.message(evMessage{link: l, kind: kind, payload: appendTook(nil, steal.Claim{Node: rank})}); err != nil {
					t.Fatal(err)
				}
				return n.neighbours[rank].gained.Equal(n.now)
			}
			if claim(2) {
				t.Errorf("kind %d: n2 gets on, says n1", kind)
			}
			if !claim(1) {
				t.Errorf("kind %d: n1 takes something, and does not get on", kind)
			}
			if claim(1) {
				t.Errorf("kind %d: n1 says so again, and gets on", kind)
			}
		})
	}
}

// What a member claims nobody else says for it, as long as it is heard; who does not hear it any more is told by all who did.
func TestNobodyClaimsForAnother(t *testing.T) {
	for _, kind := range []byte{kindTook, kindTookImports} {
		swarmOf(t, 4, 4*unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Log = slog.New(slog.DiscardHandler)
			for i := range c.Members {
				c.Members[i].Site = []string{"here", "here", "here", "there"}[i]
			}
			n := newNode(c)
			for rank := 1; rank < 3; rank++ {
				n.neighbours[rank].link = &link{rank: rank, out: newOutbox(n.mostUnread())}
				n.ex.Up(rank)
			}
			l := n.neighbours[1].link
			says := func(kind byte, payload []byte) {
				t.Helper()
				if err := n.message(evMessage{link: l, kind: kind, payload: payload}); err != nil {
					t.Fatal(err)
				}
			}
			owner := func() int {
				if kind == kindTook {
					return n.works.Owner(0)
				}
				return n.imports.Importer(0)
			}
			claim := func(node int, term uint32) {
				t.Helper()
				says(kind, appendTook(nil, steal.Claim{Node: node, Hands: []steal.Hand{{Lo: 0, Hi: 1, Term: term}}}))
			}
			claim(2, 5)
			if got := owner(); got != 0 {
				t.Fatalf("kind %d: node %d has claimed it, says another", kind, got)
			}
			claim(1, 1)
			if got := owner(); got != 1 {
				t.Fatalf("kind %d: it is up to node %d, and node 1 has claimed it", kind, got)
			}
			n.neighbours[2].link = nil
			claim(2, 2)
			if got := owner(); got != 2 {
				t.Fatalf("kind %d: it is up to node %d, and node 2, which is not heard, has claimed it", kind, got)
			}
			l.out.messages = nil
			says(kindUnheard, appendNumbers(nil, 2))
			found := false
			for _, m := range l.out.messages {
				if m.Kind == kind {
					c, err := parseTook(m.Payload)
					found = err == nil && c.Node == 2 && slices.Equal(c.Hands, []steal.Hand{{Lo: 0, Hi: 1, Term: 2}})
				}
			}
			if !found {
				t.Errorf("kind %d: who does not hear node 2 is not told what that one has claimed", kind)
			}
		})
	}
}

// Who does not hear a member, hears it again and loses it for good has taken nothing of what others said of it meanwhile: they say it once more. However
// often somebody asks, he is not told all of it more than once a second.
func TestWhoAsksAgainIsToldAgain(t *testing.T) {
	swarmOf(t, 3, 4*unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
		n := newNode(c)
		for rank := 1; rank < 3; rank++ {
			n.neighbours[rank].link = &link{rank: rank, out: newOutbox(n.mostUnread())}
			n.ex.Up(rank)
		}
		says := func(rank int, kind byte, payload []byte) {
			t.Helper()
			if err := n.message(evMessage{link: n.neighbours[rank].link, kind: kind, payload: payload}); err != nil {
				t.Fatal(err)
			}
		}
		told := func() (digests, claims int) {
			t.Helper()
			for _, m := range n.neighbours[1].link.out.messages {
				switch m.Kind {
				case kindDigests:
					ds, err := parseDigests(m.Payload, n.Layout.Count(), 3)
					if err != nil {
						t.Fatal(err)
					}
					digests += len(ds)
				case kindTook:
					claims++
				}
			}
			n.neighbours[1].link.out.messages = nil
			return digests, claims
		}
		wants := func(when string, digests, claims int) {
			t.Helper()
			if d, c := told(); d != digests || c != claims {
				t.Errorf("%s it is told %d digests and %d claims, want %d and %d", when, d, c, digests, claims)
			}
		}
		reads := func(p int) {
			says(2, kindDigests, appendDigests(nil, []digest{{p, exchange.Entry{Sum: 1, Reader: 2}}}))
			says(2, kindTook, appendTook(nil, steal.Claim{Node: 2, Hands: []steal.Hand{{Lo: p, Hi: p + 1, Term: 1}}}))
		}
		asks := func() { says(1, kindUnheard, appendNumbers(nil, 2)) }
		reads(0)
		asks()
		wants("at once", 1, 1)
		reads(2)
		for k := range 100 {
			asks()
			if k%10 == 0 {
				n.now = n.now.Add(unheardAfter / 100)
				n.tick(t.Context())
			}
		}
		wants("when it has asked again and again", 2, 1)
		n.now = n.now.Add(unheardAfter)
		n.tick(t.Context())
		wants("a second later", 2, 1)
		n.now = n.now.Add(unheardAfter)
		n.tick(t.Context())
		wants("when it has not asked", 0, 0)
	})
}

// Digests are said by their readers alone, until somebody does not hear one of them.
func TestDigestsAreRepeatedToThoseWhoAsk(t *testing.T) {
	swarmOf(t, 3, 16*unit.MiB, steal.Steal, func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		const asks = 20 * time.Second
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 256 << 10} // for 32 s
		}
		var mu sync.Mutex
		repeated, start := map[bool]map[int]bool{false: {}, true: {}}, time.Now()
		wait := b.stranger(ctx, func(c *peer.Conn) {
			select {
			case <-time.After(asks):
				if c.Name() == "n0" {
					c.WriteFrame(kindUnheard, appendNumbers(nil, 1))
				}
			case <-ctx.Done():
			}
		}, func(c *peer.Conn, kind byte, p []byte) {
			if kind != kindDigests {
				return
			}
			ds, err := parseDigests(p, b.configs[0].Layout.Count(), 3)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, d := range ds {
				if nodeName(d.Reader) != c.Name() {
					repeated[time.Since(start) >= asks][d.Piece] = true
					if c.Name() != "n0" || d.Reader != 1 {
						t.Errorf("%s repeats a digest of node %d, and was not asked to", c.Name(), d.Reader)
					}
				}
			}
		})
		b.after(asks+time.Minute, cancel)
		b.run()
		cancel()
		wait()
		b.complete(BySource, 0, 1)
		read := 0
		for _, e := range b.events() {
			if e.Kind == "piece" && e.Node == "n1" && e.From == StoreName {
				read++
			}
		}
		if len(repeated[false]) > 0 || len(repeated[true]) != read || read == 0 {
			t.Errorf("digests of %d pieces were repeated before they were asked for, and of %d of %d after that; want none and all", len(repeated[false]), len(repeated[true]), read)
		}
	})
}

// One that claims to have everything, serves nobody and repeats itself, or sends what nobody has asked for, does not
// keep the others from reading what they need.
func TestHoarder(t *testing.T) {
	for _, how := range []string{"repeats itself", "sends what nobody asked for"} {
		swarmOf(t, 3, 4*unit.MiB, steal.Steal, func(b *bench) {
			ctx, cancel := context.WithCancel(b.t.Context())
			l := b.configs[0].Layout
			share := piece.Share(l.Count(), 2, 3)
			wait := b.stranger(ctx, func(c *peer.Conn) {
				full := piece.NewSet(l.Count())
				full.AddRange(piece.Range{Hi: full.Len()})
				say := func() error { return c.WriteFrame(kindHave, appendHave(nil, []piece.Range{{Hi: 1}})) }
				if how != "repeats itself" {
					for p := share.Lo; p < share.Hi; p++ { // so that nobody reads them
						sendDigests(c, digest{p, exchange.Entry{Sum: 666, Reader: 2}})
					}
					_, size := blockSpan(l, share.Lo, 0)
					say = func() error {
						return c.WriteFrame(kindBlock, appendBlockHeader(nil, blockHeader{Piece: share.Lo}), make([]byte, size))
					}
				}
				c.WriteFrame(kindBitfield, appendBitfield(nil, full))
				for {
					select {
					case <-time.After(5 * time.Second):
					case <-ctx.Done():
						return
					}
					if say() != nil {
						return
					}
				}
			}, nil)
			b.within(time.Hour)
			b.run()
			cancel()
			wait()
			b.complete(BySource, 0, 1)
			for i := range 2 {
				if b.took[i] > 3*stallAfter {
					t.Errorf("%s: %s took %v", how, nodeName(i), b.took[i])
				}
			}
		})
	}
}

// One that asks for the same block again and again neither drains the others nor keeps
// them for as long as it likes.
func TestLeech(t *testing.T) {
	swarmOf(t, 3, 4*unit.MiB, steal.Steal, func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		wait := b.stranger(ctx, func(c *peer.Conn) {
			for {
				select {
				case <-time.After(50 * time.Millisecond):
				case <-ctx.Done():
					return
				}
				if c.WriteFrame(kindRequest, appendRequest(nil, exchange.Request{Hi: 1})) != nil {
					return
				}
			}
		}, nil)
		b.after(2*time.Hour, func() { // in simulated time
			for _, end := range b.cancel {
				end(errors.New("it has been kept for hours"))
			}
		})
		b.run()
		cancel()
		wait()
		b.complete(BySource, 0, 1)
		named := 0
		for i := range 2 {
			if sent := b.results[i].SentBytes; sent > 8*b.object.Size {
				t.Errorf("%s sent %v of an object of %v", nodeName(i), sent, b.object.Size)
			}
			// A node that happens not to serve it has nothing to say but that it gets nowhere.
			said := b.faultsOf(i)
			if served := strings.Contains(said, "n2: was sent the object"); served {
				named++
			} else if !strings.Contains(said, "n2: has made no progress") {
				t.Errorf("%s does not say what n2 did: %q", nodeName(i), said)
			}
		}
		if named == 0 {
			t.Error("nobody says that n2 was sent the object over and over")
		}
	})
}

// What a peer does not read is not kept for ever.
func TestDeafPeerIsDropped(t *testing.T) {
	swarmOf(t, 2, 0, steal.Steal, func(b *bench) {
		n := newNode(b.configs[0])
		l := &link{rank: 1, out: newOutbox(n.mostUnread())}
		n.neighbours[1].link = l
		for range 2 * maxMessages {
			if err := n.message(evMessage{link: l, kind: kindGiveWork, payload: appendGiveWork(nil, 1<<20, steal.Pace{})}); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(l.out.messages); got != maxMessages || len(n.deaf) != 1 {
			t.Errorf("%d messages are kept, deaf are %v; want %d and the peer", got, n.deaf, maxMessages)
		}
	})
}

// Who leaves unread what is told of one that is dropped for the same is dropped, too.
func TestDeafPeersAreDropped(t *testing.T) {
	swarmOf(t, 4, 0, steal.Steal, func(b *bench) {
		c := b.configs[0]
		c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
		n := newNode(c)
		for rank := 1; rank < 4; rank++ {
			_, withdraw := b.ports[rank].Offer("job")
			defer withdraw()
			conn, err := b.ports[0].Dial(b.t.Context(), nodeName(rank), nodeName(rank), "job")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			n.neighbours[rank].link = &link{rank: rank, conn: conn, out: newOutbox(0)}
		}
		n.neighbours[3].link.out = newOutbox(n.mostUnread())
		n.deaf = []int{1}
		n.tick(b.t.Context())
		n.wg.Wait()
		for rank, want := range []bool{1: true, 2: true, 3: false} {
			if rank > 0 && n.neighbours[rank].dead != want {
				t.Errorf("node %d is given up: %v", rank, n.neighbours[rank].dead)
			}
		}
	})
}

// Nor can one that does not read fill our memory when we have much to say: that is bounded in bytes, too.
func TestWhatWaitsForADeafPeerIsBounded(t *testing.T) {
	swarmOf(t, 4, 64*unit.MiB, steal.Steal, func(b *bench) {
		for i := range b.configs {
			b.configs[i].PerWork = 1
			b.configs[i].Layout.Piece = 16 * unit.KiB // 4096 works
		}
		n := newNode(b.configs[0])
		deaf := &link{rank: 1, out: newOutbox(n.mostUnread())}
		n.neighbours[1].link = deaf
		said := 0
		for term := range uint32(4000) {
			c := steal.Claim{Node: 3}
			for w := range 4096 { // no two of one term side by side: each is a run of its own
				c.Hands = append(c.Hands, steal.Hand{Lo: w, Hi: w + 1, Term: 2*term + 1 + uint32(w&1)})
			}
			said += len(appendTook(nil, c))
			n.tellClaims([]steal.Claim{c})
			if len(n.deaf) > 0 {
				break
			}
		}
		held := 0
		for _, m := range deaf.out.messages {
			held += len(m.Payload)
		}
		if held > n.mostUnread() || said < n.mostUnread()/2 || !slices.Contains(n.deaf, 1) {
			t.Errorf("%d bytes wait of %d said, deaf are %v; want at most %d, and the one that does not read", held, said, n.deaf, n.mostUnread())
		}
	})
}

// What somebody goes on claiming for the dead is passed on, together and a few times: else those who hear it would drown each other, who expect all to read what they are told.
func TestClaimsForTheDeadAreBounded(t *testing.T) {
	swarmOf(t, 4, 64*unit.MiB, steal.Steal, func(b *bench) {
		c := b.configs[0]
		c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
		c.PerWork, c.Layout.Piece = 1, 4*unit.KiB
		works := c.Layout.Count()
		n := newNode(c)
		other, talker := &link{rank: 1, out: newOutbox(n.mostUnread())}, &link{rank: 2, out: newOutbox(n.mostUnread())}
		n.neighbours[1].link, n.neighbours[2].link = other, talker
		n.dead(3, nil)
		said, messages := 0, 0
		claim := func(hs ...steal.Hand) {
			t.Helper()
			if err := n.message(evMessage{link: talker, kind: kindTook, payload: appendTook(nil, steal.Claim{Node: 3, Hands: hs})}); err != nil {
				t.Fatal(err)
			}
		}
		hears := func() {
			t.Helper()
			if len(n.deaf) > 0 {
				t.Fatalf("honest nodes are to be given up: %v", n.deaf)
			}
			n.tick(t.Context())
			for _, m := range other.out.messages {
				if m.Kind != kindTook {
					continue
				}
				messages++
				c, err := parseTook(m.Payload)
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range c.Hands {
					said += h.Hi - h.Lo
				}
			}
			other.out.messages = nil
		}
		for w := range works {
			claim(steal.Hand{Lo: w, Hi: w + 1, Term: 1})
		}
		hears()
		if said != works || messages > 4 || len(n.deaf) > 0 {
			t.Errorf("claims to %d works are passed on in %d messages, want %d in a few; deaf are %v", said, messages, works, n.deaf)
		}
		for term := range uint32(100) {
			claim(steal.Hand{Lo: 0, Hi: works, Term: 2 + term})
			hears()
		}
		if said > 10*works {
			t.Errorf("claims to %d works are passed on, of %d", said, works)
		}
	})
}

// Who claims the same works for the dead in two terms, before that is passed on, does not have us say what nobody may say: all would give each other up.
func TestClaimsInTwoTermsArePassedOn(t *testing.T) {
	const dead = 3
	for _, kind := range []byte{kindTook, kindTookImports} {
		swarmOf(t, 5, 4*unit.MiB, steal.Stream, func(b *bench) {
			start := func(self int) *node {
				c := b.configs[self]
				c.Log, c.Report, c.Layout.Piece = slog.New(slog.DiscardHandler), func(Progress) {}, 64*unit.KiB
				for i := range c.Members {
					c.Members[i].Site = []string{"here", "here", "here", "here", "there"}[i]
				}
				n := newNode(c)
				n.dead(dead, nil)
				return n
			}
			n, hears := start(0), start(1)
			works := len(steal.Divide(n.Layout.Count(), n.sources, n.policy.PerWork).Works)
			if kind == kindTookImports {
				works = n.Layout.Count()
			}
			other, talker := &link{rank: 1, out: newOutbox(n.mostUnread())}, &link{rank: 2, out: newOutbox(n.mostUnread())}
			n.neighbours[1].link, n.neighbours[2].link = other, talker
			for term := range uint32(2) {
				c := steal.Claim{Node: dead, Hands: []steal.Hand{{Lo: 0, Hi: works, Term: term + 1}}}
				if err := n.message(evMessage{link: talker, kind: kind, payload: appendTook(nil, c)}); err != nil {
					t.Fatal(err)
				}
			}
			n.tick(t.Context())
			for _, m := range other.out.messages {
				if m.Kind != kind {
					continue
				}
				if err := hears.message(evMessage{link: &link{rank: 0}, kind: kind, payload: m.Payload}); err != nil {
					t.Errorf("kind %d: who hears it gives an honest node up: %v", kind, err)
				}
			}
			claims := hears.works.Claims()
			if kind == kindTookImports {
				claims = hears.imports.Claims()
			}
			if len(claims) != 1 || claims[0].Node != dead || !slices.Equal(claims[0].Hands, []steal.Hand{{Lo: 0, Hi: works, Term: 2}}) {
				t.Errorf("kind %d: %v is heard, want a claim by node %d to %d works", kind, claims, dead, works)
			}
		})
	}
}

// What a third says to be ours is not, nor what somebody gives us whom we have not asked.
func TestNobodyIsGivenWhatHeHasNotAskedFor(t *testing.T) {
	for _, kind := range []byte{kindTook, kindWorks, kindTookImports, kindImports} {
		swarmOf(t, 4, 4*unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Log = slog.New(slog.DiscardHandler)
			for i := range c.Members {
				c.Members[i].Site = []string{"here", "here", "here", "there"}[i]
			}
			n := newNode(c)
			l := &link{rank: 1, out: newOutbox(n.mostUnread())}
			n.neighbours[1].link = l
			n.ex.Up(1)
			works, pieces := n.works.Left(), n.imports.Mine().Count()
			all := len(steal.Divide(c.Layout.Count(), n.sources, n.policy.PerWork).Works)
			if kind == kindTookImports || kind == kindImports {
				all = c.Layout.Count()
			}
			gift := steal.Claim{Node: 0, Hands: []steal.Hand{{Lo: 0, Hi: all, Term: 5}}}
			payload := appendTook(nil, gift)
			if kind == kindWorks || kind == kindImports {
				payload = appendWorks(nil, gift.Hands)
			}
			if err := n.message(evMessage{link: l, kind: kind, payload: payload}); err != nil {
				t.Fatal(err)
			}
			if got, p := n.works.Left(), n.imports.Mine().Count(); got != works || p != pieces {
				t.Errorf("kind %d: %d works of %d are ours to read, want %d; %d pieces to import, want %d", kind, got, all, works, p, pieces)
			}
		})
	}
}

// However many works change hands one by one, what is said of them has a legal length: who writes a longer frame panics.
func TestClaimsFitInFrames(t *testing.T) {
	swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Layout.Piece = 16 // bytes
		n := newNode(c)
		l, liar := &link{rank: 1, out: newOutbox(n.mostUnread())}, &link{rank: 2, out: newOutbox(n.mostUnread())}
		n.neighbours[1].link, n.neighbours[2].link = l, liar
		const works, each = 60_000, 20_000
		claim := func(node int, term uint32) {
			for lo := 0; lo < works; lo += each {
				c := steal.Claim{Node: node}
				for w := lo; w < lo+each; w++ { // no two of one term side by side
					c.Hands = append(c.Hands, steal.Hand{Lo: w, Hi: w + 1, Term: term + uint32(w&1)})
				}
				if err := n.message(evMessage{link: liar, kind: kindTook, payload: appendTook(nil, c)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		said := func(kind byte) (changed int) {
			for _, m := range l.out.messages {
				if len(m.Payload) > peer.MaxFrame {
					t.Errorf("a message of kind %d has %d bytes", m.Kind, len(m.Payload))
				}
				if m.Kind != kind {
					continue
				}
				b := m.Payload
				if kind == kindTook {
					b = b[4:]
				}
				hs, err := parseWorks(b)
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range hs {
					changed += h.Hi - h.Lo
				}
			}
			l.out.messages = nil
			return changed
		}
		claim(3, 1)
		n.dead(3, nil)
		if got := said(kindTook); got != works {
			t.Errorf("%d works of the dead are passed on, want %d", got, works)
		}
		n.dead(2, nil) // so that most are ours
		left := n.works.Left()
		if err := n.message(evMessage{link: l, kind: kindGiveWork, payload: appendGiveWork(nil, 1<<30, steal.Pace{})}); err != nil {
			t.Fatal(err)
		}
		if got := said(kindWorks); got < works/3 || got != left-n.works.Left() {
			t.Errorf("%d works are said to be given, and %d of %d are left", got, n.works.Left(), left)
		}
	})
}
