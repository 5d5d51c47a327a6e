package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// LeastObject is the least that an object must have that is read: of a smaller one the time to the first byte would be measured.
const LeastObject = 4 * unit.MiB

const (
	request  = 8 * unit.MiB // at most
	mostRead = 4 * unit.GiB
)

// Store measures what a store gives: it reads o for Span, over as many connections as
// a node of a job has at most, again from the beginning where it ends.
func Store(ctx context.Context, store objstore.Store, o objstore.Object) (rate unit.Bandwidth, read unit.Bytes, err error) {
	if o.Size < LeastObject {
		return 0, 0, fmt.Errorf("the object has %v: to measure with, want one of %v or more", o.Size, LeastObject)
	}
	ctx, cancel := context.WithTimeout(ctx, Within)
	ctx, end := context.WithCancelCause(ctx)
	m := newMeter()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	defer end(nil)
	streams, size := steal.MostStreams, min(o.Size, request)
	if !o.Ranges {
		streams, size = 1, o.Size
	}
	var next atomic.Int64 // request
	requests := int64(o.Size / size)
	for range streams {
		wg.Go(func() {
			for ctx.Err() == nil {
				off := unit.Bytes((next.Add(1)-1)%requests) * size
				if err := readOnce(ctx, store, o, off, size, m); err != nil {
					end(err)
				}
			}
		})
	}
	rate = m.watch(ctx)
	if rate == 0 {
		err = context.Cause(ctx)
		if err == nil {
			err = errors.New("what the store gave broke off before a second was over")
		}
	}
	return rate, unit.Bytes(m.bytes.Load()), err
}

func readOnce(ctx context.Context, store objstore.Store, o objstore.Object, off, size unit.Bytes, m *meter) error {
	body, err := store.ReadRange(ctx, o, off, size)
	if err != nil {
		return err
	}
	defer body.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 && m.add(n) > mostRead {
			return fmt.Errorf("more than %v were read", mostRead)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
