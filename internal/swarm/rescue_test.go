package swarm

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// hung is a disk on which what is read or written from some time on takes until it is released.
type hung struct {
	*disk
	from  time.Time
	until chan struct{}
}

var errHung = errors.New("the disk hung")

func (h hung) ReadAt(b []byte, off int64) (int, error) {
	if time.Now().Before(h.from) {
		return h.disk.ReadAt(b, off)
	}
	<-h.until
	return 0, errHung
}

func (h hung) WriteAt(b []byte, off int64) (int, error) {
	if time.Now().Before(h.from) {
		return h.disk.WriteAt(b, off)
	}
	<-h.until
	return 0, errHung
}

// What a node was to read whose disk hangs, though it answers, others read in its place where works do not change hands: all of it within minutes, and little of it twice. Who
// has held the object reads it from its own disk, so that nothing leaves the store.
func TestWhatAHungDiskKeepsIsRead(t *testing.T) {
	const nodes, size, pieces = 6, 64 * unit.KiB, 240
	for _, tt := range []struct {
		name      string
		algorithm string
		held      []int
		hangs     int
		after     time.Duration
		options   []mem.Option
		least     unit.Bytes // that leaves the store
		most      unit.Bytes
	}{
		{"one of two that have held it", steal.Stream, []int{0, 1}, 1, 0, nil, 0, 0},
		{"the only one that has held it", steal.Stream, []int{1}, 1, 0, nil, pieces * size, pieces * size * 5 / 4},
		{"one of all that read", steal.NonSteal, nil, 1, 0, nil, pieces * size, pieces * size * 5 / 4},
		{"the reader of a source without ranges", steal.Stream, nil, 0, 0, []mem.Option{mem.NoRanges()}, pieces * size, 2 * pieces * size},
		{"the same, when it has read half of it", steal.Stream, nil, 0, 8 * time.Second, []mem.Option{mem.NoRanges()}, pieces * size, 2 * pieces * size},
	} {
		t.Run(tt.name, func(t *testing.T) {
			swarmOf(t, nodes, pieces*size, tt.algorithm, func(b *bench) {
				for i := range b.configs {
					b.configs[i].Layout.Piece = size
					b.configs[i].Store = slow{b.store, unit.Bandwidth(unit.MiB)}
				}
				b.held(tt.held...)
				until := make(chan struct{})
				b.configs[tt.hangs].File = hung{b.disks[tt.hangs], time.Now().Add(tt.after), until}
				const over = time.Hour
				b.after(over, func() { close(until) })
				b.within(over)
				b.run()
				others := slices.DeleteFunc(seq(nodes), func(i int) bool { return i == tt.hangs })
				b.complete("", others...)
				for _, i := range others {
					if b.took[i] > 3*time.Minute {
						t.Errorf("%s took %v", nodeName(i), b.took[i])
					}
				}
				if got := b.storeBytes(); got < tt.least || got > tt.most {
					t.Errorf("%v left the store, want %v to %v", got, tt.least, tt.most)
				}
			}, tt.options...)
		})
	}
}

// A node that reads in the place of others says for how long nothing has come, which is not the same for all.
func TestSaysForHowLongNothingCame(t *testing.T) {
	swarmOf(t, 2, unit.MiB, steal.Stream, func(b *bench) {
		b.held(0, 1)
		var said bytes.Buffer
		c := b.configs[0]
		c.Log = slog.New(slog.NewTextHandler(&said, nil))
		n := newNode(c)
		n.now = n.now.Add(stallAfter/2 + time.Second)
		if !n.standsStill() {
			t.Fatal("it waits for longer: the test is none")
		}
		n.rescue(b.t.Context())
		n.wg.Wait()
		if !strings.Contains(said.String(), "for=16s") {
			t.Errorf("says %q", said.String())
		}
	})
}
