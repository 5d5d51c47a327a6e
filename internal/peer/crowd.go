package peer

import "fmt"

const (
	maxDataJob  = 2   // connections that one node has opened to us for one job: the one it lost and has not been found out, and the new one
	maxDataNode = 128 // that one node has opened to us for all jobs
)

// crowd takes c among the connections that its node has opened to us for jobs that
// we have, or refuses to. The newest of a job takes the place of the oldest: who calls
// again knows better what was lost. Memory that one node can make us hold is bounded with that:
// a connection has a buffer of readAhead bytes while it reads, and what its job keeps for it.
func (p *Port) crowd(c *Conn) error {
	p.mu.Lock()
	var oldest *Conn
	all, ofJob := 0, 0
	for o := range p.open {
		if o.name != c.name || o.place == 0 {
			continue
		}
		all++
		if o.job != c.job {
			continue
		}
		if ofJob++; oldest == nil || o.place < oldest.place {
			oldest = o
		}
	}
	if ofJob < maxDataJob {
		oldest = nil
	}
	if all >= maxDataNode && oldest == nil {
		p.mu.Unlock()
		return fmt.Errorf("%s has %d connections open already", c.name, maxDataNode)
	}
	p.placed++
	c.place = p.placed
	p.mu.Unlock()
	if oldest != nil {
		oldest.abort()
	}
	return nil
}
