package pace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/unit"
)

// within checks an elapsed time on synctest's clock, on which only waiting
// takes time: rounding to the nanosecond is all that is forgiven.
func within(t *testing.T, start time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(start); (got - want).Abs() > 50*time.Microsecond {
		t.Errorf("took %v, want %v", got, want)
	}
}

func TestNilHasNoLimit(t *testing.T) {
	for _, r := range []unit.Bandwidth{0, -1, unit.Bandwidth(math.NaN()), unit.Bandwidth(math.Inf(1))} {
		if l := New(r); l != nil {
			t.Errorf("New(%v) = %v, want nil", r, l)
		}
	}
	var l *Limiter
	if err := l.Wait(t.Context(), 1<<40); err != nil {
		t.Error(err)
	}
	if l.Rate() != 0 || l.Burst() != 0 {
		t.Errorf("nil: rate %v, burst %d", l.Rate(), l.Burst())
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Wait(done, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	r := bytes.NewReader(nil)
	if got := Reader(t.Context(), r, nil, nil); got != io.Reader(r) {
		t.Error("a reader without a limit was wrapped")
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if got := Conn(a, []*Limiter{nil}, nil); got != a {
		t.Error("a connection without a limit was wrapped")
	}
}

func TestBurst(t *testing.T) {
	for _, tt := range []struct {
		rate unit.Bandwidth
		want int
	}{
		{1, 64 << 10},
		{1e6, 64 << 10},
		{100e6, 1e6},   // 10 ms of 100 MB/s
		{125e6, 125e4}, // 1 Gbit/s
		{1e18, math.MaxInt32},
	} {
		if got := New(tt.rate).Burst(); got != tt.want {
			t.Errorf("%v: burst %d, want %d", tt.rate, got, tt.want)
		}
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1 << 20)
		start := time.Now()
		if err := l.Wait(t.Context(), 64<<10); err != nil {
			t.Fatal(err)
		}
		within(t, start, 0)                                 // the bucket was full
		if err := l.Wait(t.Context(), 10<<20); err != nil { // 160 bucketfuls
			t.Fatal(err)
		}
		within(t, start, 10*time.Second)
	})
}

func TestWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1000)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if err := l.Wait(ctx, 1<<20); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want deadline exceeded", err)
		}
		within(t, start, 3*time.Second)

		// What was given up is not charged to the next one.
		l = New(1000)
		l.Wait(t.Context(), l.Burst())
		short, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		l.Wait(short, 60000)
		start = time.Now()
		if err := l.Wait(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		within(t, start, time.Second-time.Millisecond)
	})
}

func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1 << 20)
		start := time.Now()
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 10 {
					l.Wait(t.Context(), 100<<10)
				}
			})
		}
		wg.Wait()
		sent := 16 * 10 * 100 << 10
		within(t, start, time.Duration(float64(sent-l.Burst())/(1<<20)*1e9))
	})
}

func TestReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := bytes.Repeat([]byte("freshet "), 1<<17) // 1 MiB
		fast, slow := New(8<<20), New(1<<20)
		start := time.Now()
		got, err := io.ReadAll(Reader(t.Context(), bytes.NewReader(data), fast, nil, slow))
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
		within(t, start, time.Duration(float64(len(data)-slow.Burst())/(1<<20)*1e9))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second/4)
		defer cancel()
		start = time.Now()
		n, err := io.Copy(io.Discard, Reader(ctx, bytes.NewReader(data), slow))
		if !errors.Is(err, context.DeadlineExceeded) || n == 0 || n >= int64(len(data)) {
			t.Errorf("read %d bytes, %v; want a part and deadline exceeded", n, err)
		}
		within(t, start, time.Second/4)
	})
}

func TestConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, side := range []string{"reader", "writer"} {
			a, b := net.Pipe()
			l := New(1 << 20)
			if side == "reader" {
				b = Conn(b, []*Limiter{l, nil}, nil)
			} else {
				a = Conn(a, nil, []*Limiter{nil, l})
			}
			data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
			start := time.Now()
			var wg sync.WaitGroup
			wg.Go(func() {
				if n, err := a.Write(data); n != len(data) || err != nil {
					t.Errorf("wrote %d, %v", n, err)
				}
				a.Close()
			})
			got, err := io.ReadAll(b)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: read %d bytes, %v", side, len(got), err)
			}
			wg.Wait()
			within(t, start, time.Duration(float64(len(data)-l.Burst())/(1<<20)*1e9))
			b.Close()
		}
	})
}

// A frame is delivered when it is there, however slow the link; the next read
// waits for it.
func TestConnDeliversAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer a.Close()
		l := New(1000)
		l.Wait(t.Context(), l.Burst())
		c := Conn(b, []*Limiter{l}, nil)
		defer c.Close()
		var wg sync.WaitGroup
		wg.Go(func() { a.Write(make([]byte, 1000)); a.Write(make([]byte, 1)) })
		start, buf := time.Now(), make([]byte, 4000)
		if n, err := c.Read(buf); n != 1000 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		within(t, start, 0)
		if n, err := c.Read(buf); n != 1 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		within(t, start, time.Second)
		wg.Wait()
	})
}

func TestConnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		c := Conn(a, []*Limiter{New(1000)}, []*Limiter{New(1000)})
		defer c.Close()
		var wg sync.WaitGroup
		wg.Go(func() { io.Copy(io.Discard, b) })
		start := time.Now()
		c.SetWriteDeadline(start.Add(time.Hour))
		wg.Go(func() { // the deadline is moved while Write waits
			time.Sleep(time.Second)
			c.SetWriteDeadline(start.Add(2 * time.Second))
		})
		n, err := c.Write(make([]byte, 1<<20))
		if n != 64<<10 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("wrote %d, %v; want one burst and a deadline", n, err)
		}
		within(t, start, 2*time.Second)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v is no timeout", err)
		}
		c.SetDeadline(time.Time{})
		if n, err := c.Write(make([]byte, 100)); n != 100 || err != nil {
			t.Errorf("after the deadline was taken away: %d, %v", n, err)
		}
		c.Close()
		wg.Wait()
	})
}

func TestConnCloseUnblocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		l := New(1)
		l.Wait(t.Context(), l.Burst())
		c := Conn(a, []*Limiter{l}, []*Limiter{l})
		var wg sync.WaitGroup
		for range 3 { // one waits for its bytes, two for their turn
			wg.Go(func() {
				if _, err := c.Write(make([]byte, 1<<20)); !errors.Is(err, net.ErrClosed) {
					t.Errorf("write: %v, want closed", err)
				}
			})
		}
		time.Sleep(time.Minute)
		start := time.Now()
		c.Close()
		wg.Wait()
		within(t, start, 0)
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read: %v, want closed", err)
		}
	})
}

// Writes of several goroutines do not mix although they are cut.
func TestConnWritesStayWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		c := Conn(a, nil, []*Limiter{New(1 << 20)})
		const size, writers = 200 << 10, 4
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() { c.Write(bytes.Repeat([]byte{byte(i)}, size)) })
		}
		for range writers {
			buf := make([]byte, size)
			if _, err := io.ReadFull(b, buf); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(buf, bytes.Repeat(buf[:1], size)) {
				t.Error("two writes were mixed")
			}
		}
		wg.Wait()
		c.Close()
		b.Close()
	})
}
