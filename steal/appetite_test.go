package steal

import (
	"testing"
	"time"

	"github.com/freshet/freshet/unit"
)

// clock is where a store and an Appetite meet: the store gives by the number of
// connections, and all of them are busy unless the test says otherwise.
type clock struct {
	a    *Appetite
	now  time.Time
	read float64
}

func (c *clock) run(d time.Duration, busy bool, rate func(streams int) unit.Bandwidth) {
	const step = 50 * time.Millisecond
	for range d / step {
		connections := 0
		if busy {
			connections = c.a.Streams()
		}
		c.a.Read(unit.Bytes(c.read), connections, c.now)
		c.now = c.now.Add(step)
		c.read += float64(rate(c.a.Streams())) * step.Seconds()
	}
}

func newClock() *clock { return &clock{a: NewAppetite(1), now: time.Unix(1, 0)} }

// A store that caps connections is read over more and more of them; one that
// caps clients is not; one that caps clients at five connections' worth is read
// over about as many.
func TestStreamsFollowMarginalGoodput(t *testing.T) {
	const each = 5 * unit.MBps
	for _, tt := range []struct {
		name        string
		rate        func(streams int) unit.Bandwidth
		least, most int
	}{
		{"connections are capped", func(k int) unit.Bandwidth { return each * unit.Bandwidth(k) }, MostStreams, MostStreams},
		{"clients are capped", func(int) unit.Bandwidth { return each }, 1, firstStreams},
		{"both", func(k int) unit.Bandwidth { return each * unit.Bandwidth(min(k, 5)) }, 4, 6},
		{"connections hinder each other", func(k int) unit.Bandwidth { return each / unit.Bandwidth(k) }, 1, firstStreams},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClock()
			c.run(time.Minute, true, tt.rate)
			probing := 0
			for range 200 { // a probe may be under way at any one time
				c.run(100*time.Millisecond, true, tt.rate)
				if k := c.a.Streams(); k < tt.least || k > tt.most {
					probing++
				}
			}
			if probing > 50 {
				t.Errorf("outside of %d to %d connections for %d %% of the time; now %d", tt.least, tt.most, probing/2, c.a.Streams())
			}
		})
	}
}

// Goodput with nothing to read tells nothing of the store.
func TestIdleTimeIsNotMeasured(t *testing.T) {
	c := newClock()
	full := func(int) unit.Bandwidth { return 8 * unit.MBps }
	c.run(5*time.Second, true, full)
	before := c.a.rate
	c.run(5*time.Second, false, func(int) unit.Bandwidth { return unit.MBps })
	if after := c.a.rate; after != before || before < 7.9*unit.MBps || before > 8.1*unit.MBps {
		t.Errorf("rate %v before, %v after an idle time; want 8 MB/s both times", before, after)
	}
	if got, want := c.a.Theft(), 8_000_000; got < want*98/100 || got > want*102/100 {
		t.Errorf("a theft brings %v B, want a second's worth, %v", got, want)
	}
	if got, want := c.a.Request(unit.TiB, 2), c.a.Theft()/c.a.Streams(); got != want {
		t.Errorf("a request asks for %v B over %d connections, want %v", got, c.a.Streams(), want)
	}
}

// One request and one theft are of whole works, one at least; towards the end requests are smaller.
func TestWorksAtATime(t *testing.T) {
	for _, tt := range []struct {
		rate           unit.Bandwidth
		left           unit.Bytes
		request, theft int
	}{
		{0, unit.TiB, 1, 1}, // nothing is known
		{7 * unit.MBps, unit.TiB, 3, 7},
		{7 * unit.MBps, 16_000_000, 2, 7},
		{7 * unit.MBps, 1_000_000, 1, 7},
	} {
		a := NewAppetite(1_000_000)
		a.rate, a.streams = tt.rate, 2
		if request, theft := a.Request(tt.left, 2), a.Theft(); request != tt.request || theft != tt.theft {
			t.Errorf("%v with %v left: %d works a request and %d a theft, want %d and %d", tt.rate, tt.left, request, theft, tt.request, tt.theft)
		}
	}
}

// A store that asks to be left alone is read over half as many connections, and more are tried only after a while.
func TestRefusedStoreIsSpared(t *testing.T) {
	c := newClock()
	each := func(k int) unit.Bandwidth { return 5 * unit.MBps * unit.Bandwidth(k) }
	c.run(time.Minute, true, each)
	if got := c.a.Streams(); got != MostStreams {
		t.Fatalf("%d connections, want %d", got, MostStreams)
	}
	c.a.Refused(c.now)
	for range 9 {
		c.run(time.Second, true, each)
		if got := c.a.Streams(); got != MostStreams/2 {
			t.Fatalf("%d connections, want %d", got, MostStreams/2)
		}
	}
	c.run(10*time.Second, true, each)
	if got := c.a.Streams(); got != MostStreams {
		t.Errorf("%d connections, want %d again", got, MostStreams)
	}
}

// A store that gives much shows so in less than a second.
func TestWideStoreIsFoundSoon(t *testing.T) {
	c := newClock()
	c.run(time.Second, true, func(k int) unit.Bandwidth { return 80 * unit.MBps * unit.Bandwidth(k) })
	if got := c.a.Streams(); got < 4 {
		t.Errorf("%d connections after a second at 80 MB/s each, want 4 at least", got)
	}
}

// What more connections brought in a time in which there was not enough to read for them is not known, and they are given up.
func TestIdleProbeIsGivenUp(t *testing.T) {
	c := newClock()
	each := func(k int) unit.Bandwidth { return 5 * unit.MBps * unit.Bandwidth(k) }
	c.run(1100*time.Millisecond, true, each)
	if got := c.a.Streams(); got != 2*firstStreams {
		t.Fatalf("%d connections, want that more are tried", got)
	}
	c.run(1100*time.Millisecond, false, each)
	if got := c.a.Streams(); got != firstStreams {
		t.Errorf("%d connections when there was nothing to read, want %d", got, firstStreams)
	}
}
