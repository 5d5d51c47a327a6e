package lab

import (
	"fmt"
	"testing"

	"github.com/freshet/freshet/unit"
)

// TestPacketsStayLarge looks at what the switch hands to a host: the kernel has
// not cut the senders' packets into single frames, which is ten times the work, at
// any rate whose bucket holds more than one.
func TestPacketsStayLarge(t *testing.T) {
	for _, rate := range []unit.Bandwidth{20 * unit.Mbit, 25 * unit.Mbit, 50 * unit.Mbit, 100 * unit.Mbit} {
		t.Run(mbit(rate), func(t *testing.T) {
			t.Parallel()
			link := Link{A: "n0", B: "sw", Rate: rate, Buffer: 512 * unit.KiB}
			to := link
			to.A = "n1"
			l := New(t, Spec{Hosts: hosts(2), Switches: []string{"sw"}, Links: []Link{link, to}})
			s, err := open(l, "n0", "n1")
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			eventually(t, func() error {
				before, err := l.links[1].ends[1].handed()
				if err != nil {
					return err
				}
				if _, err := s.rate(); err != nil {
					return err
				}
				after, err := l.links[1].ends[1].handed()
				if err != nil {
					return err
				}
				mean := (after.bytes - before.bytes) / unit.Bytes(after.packets-before.packets)
				if most := newShape(rate, link.Buffer).packet(); mean < most/2 || mean > most {
					return fmt.Errorf("packets of %v in the mean; want nearly %v", mean, most)
				}
				return nil
			})
		})
	}
}
