package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/unit"
)

// Ballast is a file in Memory that grows smaller while a run's files grow, so that these come to lie in pages that this machine owns.
// Pages that a virtual machine has given back to its host cost several times as much to write to as a copy does, whether they were is
// chance, and they go back within seconds of being free: writing to as much memory before the run, and setting it free, is not enough.
type Ballast struct {
	file  *os.File // without a name
	size  int64    // of it at first
	left  int64    // of it now
	began int64    // how much of Memory others used at first
	grown int64    // by how much more, when it was last looked

	stop context.CancelFunc
	wg   sync.WaitGroup
	err  error // of the goroutine
}

const (
	ballastAhead = 64 * unit.MiB        // so much is free beyond what is in use: little, since it is free for long where files grow slowly
	ballastBurst = 8                    // or so many times what was taken since the last look: agents that take space for files at once are as fast as who frees it
	ballastEvery = 5 * time.Millisecond // it is looked at
)

// NewBallast takes so much memory, by writing to it, and sets free as much as is written in Memory from now on, somewhat ahead of it.
func NewBallast(size unit.Bytes) (b *Ballast, err error) {
	f, err := os.CreateTemp(Memory, "freshet-ballast-")
	if err != nil {
		return nil, err
	}
	b = &Ballast{file: f, size: int64(size), left: int64(size)}
	if err = os.Remove(f.Name()); err == nil {
		_, err = io.CopyN(f, zeros{}, int64(size))
	}
	used := int64(0)
	if err == nil {
		used, err = inMemory()
	}
	if b.began = used - b.left; err == nil {
		err = b.ease()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ballast of %v: %w", size, err), f.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	ready := make(chan error)
	b.wg.Go(func() {
		runtime.LockOSThread() // for good: it ends with the goroutine, since no other should have its priority
		err := first()
		if ready <- err; err != nil {
			return
		}
		tick := time.NewTicker(ballastEvery)
		defer tick.Stop()
		for b.err == nil {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				b.err = b.ease()
			}
		}
	})
	if err := <-ready; err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// first has this thread run before all others. The agents of 32 nodes take 6 GiB for their files in the first second, on two processors, and who is to
// set as much free beside them must not wait for its turn.
func first() error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20); err != nil {
		return fmt.Errorf("ballast: priority -20: %w", err)
	}
	return nil
}

// ease makes the file smaller by what others have taken, and by what they will have before it is looked again.
func (b *Ballast) ease() error {
	used, err := inMemory()
	if err != nil || b.left == 0 {
		return err
	}
	grown := used - b.left - b.began
	ahead := max(int64(ballastAhead), ballastBurst*(grown-b.grown))
	b.grown = grown
	left := max(0, b.size-grown-ahead)
	if left >= b.left {
		return nil
	}
	b.left = left
	return b.file.Truncate(left)
}

// Close sets the rest free.
func (b *Ballast) Close() error {
	b.stop()
	b.wg.Wait()
	return errors.Join(b.err, b.file.Close())
}

// inMemory is how much is in use where experiments have their files.
func inMemory() (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(Memory, &s); err != nil {
		return 0, fmt.Errorf("%s: %w", Memory, err)
	}
	return int64(s.Blocks-s.Bfree) * s.Bsize, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
