package peer

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

// One node that floods a job has its newest connections, and one that floods
// many jobs a bounded number; others come in all the same.
func TestCrowd(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		dial := func(job string) (*Conn, error) { return b.Dial(t.Context(), "a:1", "a", job) }
		offer := func(job string) (take func() *Conn) {
			incoming, withdraw := a.Offer(job)
			t.Cleanup(withdraw)
			return func() *Conn { return <-incoming }
		}
		closed := func(c *Conn) bool {
			select {
			case <-c.closed:
				return true
			default:
				return false
			}
		}

		take := offer("flooded")
		var taken []*Conn
		for range 50 {
			c, err := dial("flooded")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			taken = append(taken, take())
		}
		synctest.Wait()
		for i, c := range taken {
			if want := i < len(taken)-maxDataJob; closed(c) != want {
				t.Errorf("connection %d of %d for one job is closed: %v, want %v", i, len(taken), closed(c), want)
			}
		}

		refused := 0
		for i := range 2 * maxDataNode {
			take := offer(fmt.Sprint("job", i))
			c, err := dial(fmt.Sprint("job", i))
			if r, ok := errors.AsType[*Refused](err); ok && r.Code == Busy {
				refused++
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			taken = append(taken, take())
		}
		if want := maxDataNode + maxDataJob; refused != want {
			t.Errorf("%d jobs' connections were refused, want %d", refused, want)
		}
		if c, err := dial("flooded"); err != nil { // takes the place of an older one
			t.Errorf("a job that has connections: %v", err)
		} else {
			defer c.Close()
			taken = append(taken, take())
		}
		for _, c := range taken {
			c.Close()
		}
		synctest.Wait()
		if n := len(a.open); n > 0 {
			t.Errorf("%d connections are on the list when all are closed", n)
		}
		if c, err := dial("flooded"); err != nil {
			t.Errorf("when all are closed: %v", err)
		} else {
			c.Close()
			take().Close()
		}
	})
}
