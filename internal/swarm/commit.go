package swarm

import (
	"context"
	"fmt"
)

// complete commits the file, or all of several, when every piece is here and proved.
func (n *node) complete(ctx context.Context) {
	if n.done || n.commits || n.fatal != nil || !n.ex.Have().Full() || !n.man.Settled() || len(n.doubts) > 0 || len(n.looks) > 0 || n.unproved {
		return
	}
	for _, f := range n.fetches {
		if f.audit == comparing { // what is in doubt no more
			f.relieve(errRelieved)
			return
		}
	}
	verified, again := n.verify()
	if again {
		return
	}
	n.note()
	n.verified, n.commits = verified, true
	readBack := func() error { return nil }
	if n.accuser != nil {
		readBack = n.readBack(ctx)
	}
	n.wg.Go(func() {
		err := readBack()
		if err == nil {
			err = ctx.Err() // a job that is over puts nothing in its place
		}
		if err == nil && n.Commit != nil {
			err = n.Commit()
			n.placed = err == nil
		}
		n.post(evCommitted{err})
	})
}

// accused notes that a peer has got wrong bytes of us, as it says. It may be right: what it got
// is not what we had checked when it came if the disk gives back something else, so the
// file is read once more before it counts.
func (n *node) accused(ctx context.Context, by error) {
	n.accuser = by
	if !n.done || n.rereads {
		return
	}
	n.rereads = true
	readBack := n.readBack(ctx)
	n.wg.Go(func() { n.post(evReadBack{readBack()}) })
}

// readBack returns a function that reads the file back and compares it with the
// manifest as it is now.
func (n *node) readBack(ctx context.Context) func() error {
	by := n.accuser
	n.accuser = nil
	sums := make([]uint64, n.Layout.Count())
	for p := range sums {
		e, _ := n.man.Entry(p)
		sums[p] = e.Sum
	}
	return func() error {
		buf, err := n.Send.Get(ctx)
		if err != nil {
			return err
		}
		defer n.Send.Put(buf)
		for p, want := range sums {
			var sum uint64
			for b := range n.Layout.Blocks(p) {
				if err := ctx.Err(); err != nil {
					return err
				}
				off, size := blockSpan(n.Layout, p, b)
				if k, err := n.File.ReadAt(buf[:size], off); k < size {
					return fmt.Errorf("read piece %d back: %w", p, err)
				}
				sum = n.algorithm(p).Update(sum, buf[:size])
			}
			if sum != want {
				return fmt.Errorf("piece %d: %w: the disk does not give back what was written to it (%w)", p, ErrHeldWrong, by)
			}
		}
		return nil
	}
}

func (n *node) committed(err error) {
	if err != nil {
		n.fail(err)
		return
	}
	n.note()
	n.diary.End() // what follows is none of it
	n.spend()
	n.done, n.commits, n.doneAt = true, false, n.now
	n.tellAll(kindDone, nil)
	n.Recorder.Record(n.now, Event{Kind: "done", Verified: n.verified})
	n.Report(n.progress())
}
