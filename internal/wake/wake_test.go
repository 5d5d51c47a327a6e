package wake

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

// pair is the two ends of a connection.
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if far, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	if near, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	near.SetDeadline(time.Now().Add(time.Minute))
	return near, far
}

// reader reads into one buffer, and counts how often it was taken: how often the reader was awake.
type reader struct {
	*Socket
	b     []byte
	taken int
	held  bool
}

func (r *reader) read(least int) ([]byte, error) {
	n, _, err := r.Socket.Read(least, func() []byte {
		r.taken++
		r.held = true
		return r.b
	}, func() { r.held = false })
	return r.b[:n], err
}

// One that knows what is to come sleeps until it is there, and one that does not is told at once.
func TestRead(t *testing.T) {
	near, far := pair(t)
	r := &reader{Socket: Of(near), b: make([]byte, 100<<10)}
	const much = 64 << 10
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for range much / 1024 {
			far.Write(make([]byte, 1024))
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(10 * time.Millisecond)
		far.Write([]byte("more"))
	})
	if got, err := r.read(much); len(got) != much || err != nil {
		t.Errorf("read %d bytes, %v; want %d", len(got), err, much)
	}
	if runtime.GOOS == "linux" && r.taken > 8 {
		t.Errorf("the reader was awake %d times for what it had said that it waits for", r.taken)
	}
	if got, err := r.read(1); string(got) != "more" || err != nil {
		t.Errorf("read %q, %v; want what there was", got, err)
	}
}

// Who waits in vain takes what there is: slow is not silent. Silence is.
func TestDeadline(t *testing.T) {
	near, far := pair(t)
	r := &reader{Socket: Of(near), b: make([]byte, 100<<10)}
	near.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	later := time.AfterFunc(30*time.Millisecond, func() { far.Write([]byte("slow")) }) // when it is waited for
	defer later.Stop()
	if got, err := r.read(len(r.b)); string(got) != "slow" || err != nil {
		t.Errorf("read %q, %v; want what there was", got, err)
	}
	near.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if got, err := r.read(len(r.b)); len(got) > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || r.held {
		t.Errorf("of silence %q was read, %v; a buffer is held: %v", got, err, r.held)
	}
}

// The end of the stream, or of the connection, ends the waiting.
func TestEnd(t *testing.T) {
	near, far := pair(t)
	r := &reader{Socket: Of(near), b: make([]byte, 100<<10)}
	later := time.AfterFunc(30*time.Millisecond, func() {
		far.Write([]byte("last"))
		far.Close()
	})
	defer later.Stop()
	if got, err := r.read(len(r.b)); string(got) != "last" || err != nil {
		t.Errorf("read %q, %v; want the last bytes", got, err)
	}
	if got, err := r.read(len(r.b)); len(got) > 0 || err != io.EOF {
		t.Errorf("read %q, %v; want the end", got, err)
	}
	near, _ = pair(t)
	r.Socket = Of(near)
	closer := time.AfterFunc(30*time.Millisecond, func() { near.Close() })
	defer closer.Stop()
	if got, err := r.read(len(r.b)); len(got) > 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("read %q, %v; want that it is closed", got, err)
	}
	if here, there := net.Pipe(); Of(here) != nil || there == nil {
		t.Error("a pipe is taken for a socket")
	}
}
