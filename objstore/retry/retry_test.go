package retry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/fault"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/objstore/objstoretest"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

func TestConformance(t *testing.T) {
	var m *mem.Store
	h := objstoretest.Harness{
		Checksum: piece.CRC64NVME, Big: 256 * unit.KiB,
		Open: func(*testing.T) objstore.Store { m = mem.New(); return New(m, Policy{}) },
		Deny: func(_ *testing.T, name string) { m.Deny(name) },
	}
	t.Run("sound", func(t *testing.T) { objstoretest.Run(t, h) })

	// Over a store that breaks off every third reader, everything is the same.
	h.Open = func(*testing.T) objstore.Store {
		m = mem.New()
		broken := fault.New(m, fault.MustParse("read every=3 -> reset 1000; read every=7 -> 500; stat every=3 -> 503; list every=2 -> reset; put nth=1 -> 500"))
		return New(broken, Policy{First: time.Microsecond, Max: time.Millisecond})
	}
	t.Run("broken", func(t *testing.T) { objstoretest.Run(t, h) })

	h.Checksum, h.NoRanges = "", true
	h.Open = func(*testing.T) objstore.Store {
		m = mem.New(mem.Checksum(""), mem.NoRanges())
		return New(m, Policy{})
	}
	t.Run("no ranges", func(t *testing.T) { objstoretest.Run(t, h) })
}

// notes is what OnRetry was told.
type notes struct {
	mu   sync.Mutex // guards said
	said []string
	wait time.Duration
}

func (n *notes) note(op, key string, attempt int, wait time.Duration, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.said = append(n.said, fmt.Sprintf("%s %s %d", op, key, attempt))
	n.wait += wait
}

func (n *notes) String() string { return strings.Join(n.said, ", ") }

func TestRead(t *testing.T) {
	data := objstoretest.Bytes(1, 100_000)
	for _, tt := range []struct {
		name, rules string
		policy      Policy
		options     []mem.Option
		got         int   // bytes delivered
		err         error // errors.Is; nil: none
		said        string
		least, most time.Duration // that it takes
	}{
		{name: "sound", got: 100_000},
		{name: "resumed", rules: "read times=2 -> truncate 30000", got: 100_000,
			said: "read obj 1, read obj 1", least: 100 * time.Millisecond, most: 200 * time.Millisecond},
		{name: "waits grow", rules: "read times=4 -> 500", got: 100_000,
			said: "read obj 1, read obj 2, read obj 3, read obj 4", least: 750 * time.Millisecond, most: 1500 * time.Millisecond},
		{name: "busy", rules: "read nth=1 -> busy 5s", got: 100_000, said: "read obj 1", least: 5 * time.Second, most: 5100 * time.Millisecond},
		{name: "503 for ten seconds", rules: "read first=10s -> 503 1s", got: 100_000, least: 10 * time.Second, most: 25 * time.Second},
		{name: "stalled", rules: "read nth=1 -> stall", got: 100_000, said: "read obj 1", least: 30 * time.Second, most: 31 * time.Second},
		{name: "denied", rules: "read -> denied", err: objstore.ErrDenied},
		{name: "replaced", rules: "read nth=1 -> reset 10; read nth=2 -> replace 5", got: 15, err: objstore.ErrChanged, said: "read obj 1", most: time.Second},
		{name: "hopeless", rules: "read -> 500", err: errAny, least: 90 * time.Second, most: 2 * time.Minute},
		{name: "hopeless in the middle", rules: "read nth=1 -> reset 10; read -> 500", got: 10, err: errAny, least: 90 * time.Second, most: 2 * time.Minute},
		{name: "asks for too much", rules: "read -> busy 1h", err: errAny},
		{name: "no patience", rules: "read -> 500", policy: Policy{Patience: -1}, err: errAny},
		{name: "progress resets patience", rules: "read -> truncate 1000", policy: Policy{Patience: 300 * time.Millisecond}, got: 100_000,
			least: 99 * 50 * time.Millisecond, most: 10 * time.Second},
		{name: "cannot resume", rules: "read nth=1 -> reset 10", options: []mem.Option{mem.NoRanges()}, got: 10, err: errAny},
		{name: "begins anew", rules: "read times=2 -> reset", options: []mem.Option{mem.NoRanges()}, got: 100_000,
			said: "read obj 1, read obj 2", most: time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mem.New(tt.options...)
				o := m.Set("obj", data)
				var n notes
				tt.policy.OnRetry = n.note
				s := New(fault.New(m, fault.MustParse(tt.rules)), tt.policy)
				began := time.Now()
				got, err := read(t.Context(), s, o)
				took := time.Since(began)
				if !bytes.Equal(got, data[:tt.got]) {
					t.Errorf("got %d bytes, want %d (or they differ)", len(got), tt.got)
				}
				if tt.err == nil && err != nil || tt.err == errAny && err == nil || tt.err != nil && tt.err != errAny && !errors.Is(err, tt.err) {
					t.Errorf("got error %v, want %v", err, tt.err)
				}
				if took < tt.least || took > tt.most || n.wait > took {
					t.Errorf("took %v (waited %v), want %v to %v", took, n.wait, tt.least, tt.most)
				}
				if tt.said != "" && n.String() != tt.said {
					t.Errorf("OnRetry was told %q, want %q", n.String(), tt.said)
				}
			})
		})
	}
}

var errAny = errors.New("any error")

func read(ctx context.Context, s objstore.Store, o objstore.Object) ([]byte, error) {
	r, err := s.ReadRange(ctx, o, 0, o.Size)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(r)
	return got, errors.Join(err, r.Close())
}

// A reader whose caller takes its time has not stalled.
func TestSlowCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mem.New()
		o := m.Set("obj", objstoretest.Bytes(1, 1000))
		var n notes
		r, err := New(m, Policy{OnRetry: n.note}).ReadRange(t.Context(), o, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for range 1000 {
			time.Sleep(time.Minute)
			if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if len(n.said) > 0 {
			t.Errorf("tried again: %v", &n)
		}
	})
}

// impatient is a store that gives up on who does not read for a minute.
type impatient struct{ objstore.Store }

func (s impatient) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r, err := s.Store.ReadRange(ctx, o, off, n)
	return &impatientBody{r, time.Now()}, err
}

type impatientBody struct {
	io.ReadCloser
	read time.Time
}

func (b *impatientBody) Read(p []byte) (int, error) {
	if time.Since(b.read) > time.Minute {
		return 0, io.ErrUnexpectedEOF
	}
	b.read = time.Now()
	return b.ReadCloser.Read(p)
}

// A reader whose caller takes longer than the store waits goes on, however long that was.
func TestSlowCallerOfImpatientStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mem.New()
		want := objstoretest.Bytes(1, 1000)
		o := m.Set("obj", want)
		r, err := New(impatient{m}, Policy{}).ReadRange(t.Context(), o, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		got := make([]byte, 1000)
		for i := range 10 {
			if _, err := io.ReadFull(r, got[100*i:100*(i+1)]); err != nil {
				t.Fatalf("after %d bytes: %v", 100*i, err)
			}
			time.Sleep(10 * time.Minute)
		}
		if !bytes.Equal(got, want) {
			t.Error("other bytes")
		}
	})
}

// The context ends a wait at once, and the error says both what ended it and
// what was being waited out.
func TestContextEndsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mem.New()
		o := m.Set("obj", []byte("x"))
		s := New(fault.New(m, fault.MustParse("-> busy 1m")), Policy{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := read(ctx, s, o)
		var busy *objstore.Busy
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &busy) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// Busy for one is busy for all: nobody knocks before the time is over.
func TestBusyIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mem.New()
		o := m.Set("obj", objstoretest.Bytes(1, 1000))
		f := fault.New(m, fault.MustParse("read nth=1 -> busy 10s; read first=10s -> 500"))
		s := New(f, Policy{})
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				if got, err := read(t.Context(), s, o); err != nil || len(got) != 1000 {
					t.Errorf("reader %d: %d bytes, %v", i, len(got), err)
				}
			})
		}
		wg.Wait()
		if n := len(f.Events()); n != 1 {
			t.Errorf("the store was asked %d times while it was busy, want once", n)
		}
	})
}

// Readers that failed together, or that wait out the same busy store, don't
// come back together; none comes before half of its wait.
func TestReadersComeBackApart(t *testing.T) {
	const readers = 20
	for _, tt := range []struct {
		name     string
		fail     int // the reads that fail
		err      error
		from, to time.Duration // when the others come
	}{
		{"failed together", readers, io.ErrUnexpectedEOF, 500 * time.Millisecond, time.Second},
		{"busy", 1, &objstore.Busy{After: 10 * time.Second}, 10 * time.Second, 12 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := mem.New()
			o := m.Set("obj", []byte("x"))
			c := &comings{Store: m, fail: tt.fail, err: tt.err}
			s := New(c, Policy{First: time.Second})
			began := time.Now()
			var wg sync.WaitGroup
			for i := range readers {
				wg.Go(func() {
					if tt.fail == 1 && i > 0 {
						time.Sleep(time.Second) // until the first one has been told
					}
					if _, err := read(t.Context(), s, o); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			moments := map[time.Duration]bool{}
			for _, at := range c.at {
				after := at.Sub(began)
				if after < tt.from || after > tt.to {
					t.Errorf("%s: came back after %v, want %v to %v", tt.name, after, tt.from, tt.to)
				}
				moments[after.Round(time.Millisecond)] = true
			}
			if len(moments) < readers*3/4 {
				t.Errorf("%s: %d readers came back in %d different milliseconds", tt.name, len(c.at), len(moments))
			}
		})
	}
}

// comings is a store whose first reads fail; it notes when the others begin.
type comings struct {
	objstore.Store
	err error

	mu   sync.Mutex // guards what follows
	fail int
	at   []time.Time
}

func (c *comings) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail > 0 {
		c.fail--
		return nil, c.err
	}
	c.at = append(c.at, time.Now())
	return c.Store.ReadRange(ctx, o, off, n)
}

func TestStatListPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mem.New()
		want := ""
		for i := range 20 {
			m.Set(fmt.Sprintf("k%02d", i), nil)
			want += fmt.Sprintf("k%02d ", i)
		}
		var n notes
		s := New(breakingList{fault.New(m, fault.MustParse("stat nth=1 -> stall; put nth=1 -> 500; put nth=3 -> 500")), new(int)}, Policy{OnRetry: n.note})
		if o, err := s.Stat(t.Context(), "k03"); err != nil || o.Key != "k03" {
			t.Errorf("stat: %+v, %v", o, err)
		}
		got := ""
		for e, err := range s.List(t.Context(), "k") {
			if err != nil {
				t.Fatal(err)
			}
			got += e.Key + " "
		}
		if got != want {
			t.Errorf("list: got %s, want %s", got, want)
		}
		if o, err := s.Put(t.Context(), "p", strings.NewReader("content"), 7); err != nil || o.Size != 7 {
			t.Errorf("put: %+v, %v", o, err)
		}
		if o, err := s.Put(t.Context(), "p", io.MultiReader(strings.NewReader("content")), 7); err != nil || o.Size != 7 {
			t.Errorf("put that failed before anything was read: %+v, %v", o, err)
		}
	})
}

// breakingList breaks off the first listings after 7, 9, 11, … entries.
type breakingList struct {
	objstore.Store
	listings *int
}

func (b breakingList) List(ctx context.Context, prefix string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		left := 7 + 2**b.listings
		*b.listings++
		for e, err := range b.Store.List(ctx, prefix) {
			if left == 0 {
				yield(objstore.Entry{}, io.ErrUnexpectedEOF)
				return
			}
			left--
			if !yield(e, err) {
				return
			}
		}
	}
}

// What a store lists in another order than that of the keys is yielded all the same, and once, also where the first listing breaks off.
func TestListInAnotherOrder(t *testing.T) {
	for after := range 4 { // entries of the first listing; 0: it does not break off
		synctest.Test(t, func(t *testing.T) {
			s := New(&unordered{Store: mem.New(), keys: []string{"b", "a", "c"}, after: after}, Policy{})
			var got []string
			for e, err := range s.List(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.Key)
			}
			if want := "b a c"; strings.Join(got, " ") != want {
				t.Errorf("broken off after %d: got %q, want %s", after, got, want)
			}
		})
	}
}

// unordered lists keys as they stand, the first time only so many of them, and then an error.
type unordered struct {
	objstore.Store
	keys  []string
	after int // 0: no error
}

func (u *unordered) List(context.Context, string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		after := u.after
		u.after = 0
		for i, key := range u.keys {
			if !yield(objstore.Entry{Key: key}, nil) {
				return
			}
			if i+1 == after {
				yield(objstore.Entry{}, io.ErrUnexpectedEOF)
				return
			}
		}
	}
}

// A body that has been read from and cannot go back is not sent twice; one that
// can, is; and the caller's own failure is not retried.
func TestPutAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := objstoretest.Bytes(1, 5000)
		for _, tt := range []struct {
			name  string
			r     io.Reader
			tries int
			bad   bool
		}{
			{"seeks", bytes.NewReader(data), 3, false},
			{"cannot seek", io.MultiReader(bytes.NewReader(data)), 1, true},
			{"fails itself", iotest.ErrReader(errors.New("disk on fire")), 1, true},
		} {
			p := &halfPut{Store: mem.New(), fail: 2}
			o, err := New(p, Policy{}).Put(t.Context(), "k", tt.r, unit.Bytes(len(data)))
			if (err != nil) != tt.bad || p.tries != tt.tries || !tt.bad && o.Size != 5000 {
				t.Errorf("%s: %+v, %v after %d attempts; want %d, error %v", tt.name, o, err, p.tries, tt.tries, tt.bad)
			}
		}
	})
}

// halfPut fails after having read a part of the body.
type halfPut struct {
	objstore.Store
	tries, fail int
}

func (p *halfPut) Put(ctx context.Context, key string, r io.Reader, size unit.Bytes) (objstore.Object, error) {
	if p.tries++; p.tries <= p.fail {
		if _, err := io.CopyN(io.Discard, r, 1000); err != nil {
			return objstore.Object{}, err
		}
		return objstore.Object{}, io.ErrUnexpectedEOF
	}
	return p.Store.Put(ctx, key, r, size)
}
