package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/freshet/freshet/unit"
)

// Spec is a network. Names are [a-z0-9-]{1,15}: they become names of
// interfaces. No name may stand for two things.
type Spec struct {
	Hosts    []string
	Switches []string
	Links    []Link
	Seed     uint64 // of all chance; zero: 1. Of each direction's packets the same are lost, by their order, in each lab with this seed
}

// Link joins a host and a switch, or two switches. A host has one or more
// links. All hosts that reach each other over switches only are one segment:
// one IPv4 subnet, in which a host has at most one link. Nothing is routed
// between segments; a host with a link in each of two is what can relay.
type Link struct {
	A, B   string
	Rate   unit.Bandwidth // A→B, of Ethernet frames; zero: unlimited
	Back   unit.Bandwidth // B→A; zero: as Rate
	Buffer unit.Bytes     // in front of each rate; zero: 50 ms of the rate, at least 64 KiB
	Delay  time.Duration  // one way, in each direction
	Loss   float64        // probability that a packet is lost, in each direction
}

// Star is the spec in which all hosts have a link like l to one switch, "sw".
// The host is A: l.Rate is what leaves it, l.Back what reaches it.
func Star(hosts []string, l Link) Spec {
	s := Spec{Hosts: slices.Clone(hosts), Switches: []string{"sw"}}
	for _, h := range hosts {
		l.A, l.B = h, "sw"
		s.Links = append(s.Links, l)
	}
	return s
}

// Attach adds hosts, each with a link without limits to a switch.
func (s *Spec) Attach(at string, hosts ...string) {
	for _, h := range hosts {
		s.Hosts = append(s.Hosts, h)
		s.Links = append(s.Links, Link{A: h, B: at})
	}
}

// ParseSpec reads a spec as YAML. Keys are the field names in lower case;
// rates, sizes and times are written as they are for freshet's flags:
//
//	hosts: [n0, n1]
//	switches: [sw]
//	seed: 7
//	links:
//	- {a: n0, b: sw, rate: 100Mbit, back: 50Mbit, buffer: 64KiB}
//	- {a: n1, b: sw, rate: 1Gbit, delay: 10ms, loss: 0.01}
//
// The spec it returns is valid.
func ParseSpec(text []byte) (Spec, error) {
	var in specText
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&in); err != nil {
		return Spec{}, fmt.Errorf("lab: read spec: %w", inOneLine(err))
	}
	s := Spec{Hosts: in.Hosts, Switches: in.Switches, Seed: in.Seed}
	for i, t := range in.Links {
		l := Link{A: t.A, B: t.B, Loss: t.Loss}
		set := func(key, text string, parse func(string) error) error {
			if text == "" {
				return nil
			}
			if err := parse(text); err != nil {
				return fmt.Errorf("lab: link %d (%s–%s): %s: %w", i+1, t.A, t.B, key, err)
			}
			return nil
		}
		for _, err := range []error{
			set("rate", t.Rate, l.Rate.Set),
			set("back", t.Back, l.Back.Set),
			set("buffer", t.Buffer, l.Buffer.Set),
			set("delay", t.Delay, func(s string) (err error) {
				if l.Delay, err = time.ParseDuration(s); err != nil {
					err = fmt.Errorf("time %q: want a number with us, ms or s", s)
				}
				return err
			}),
		} {
			if err != nil {
				return Spec{}, err
			}
		}
		s.Links = append(s.Links, l)
	}
	if err := s.Validate(); err != nil {
		return Spec{}, err
	}
	return s, nil
}

// specText and linkText are a spec as it is written.
type (
	specText struct {
		Hosts, Switches []string
		Seed            uint64
		Links           []linkText
	}
	linkText struct {
		A, B, Rate, Back, Buffer, Delay string
		Loss                            float64
	}
)

// inOneLine is the first of what is wrong with a text, in words of the text.
func inOneLine(err error) error {
	var wrong *yaml.TypeError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it is empty")
	case !errors.As(err, &wrong):
		return err
	}
	first, of, unknown := strings.Cut(wrong.Errors[0], " in type ")
	switch {
	case unknown && strings.HasSuffix(of, "linkText"):
		first += "; a link has a, b, rate, back, buffer, delay and loss"
	case unknown:
		first += "; a spec has hosts, switches, links and seed"
	default:
		first, _, _ = strings.Cut(first, " into lab.")
	}
	return errors.New(first)
}

var validName = regexp.MustCompile(`^[a-z0-9-]{1,15}$`)

// Names that the kernel has given away in a namespace.
var reserved = []string{"lo", "all", "default"}

const (
	maxSegments = 128   // 10.64.0.0/16 to 10.191.0.0/16
	maxMembers  = 65000 // addresses of one of them
	minBuffer   = 4 * frame
	maxBuffer   = unit.GiB
	maxDelay    = time.Minute
)

// Validate says, in one line, why s cannot be built.
func (s Spec) Validate() error {
	_, err := s.plan()
	return err
}

// check says why a link cannot be like that, whatever it joins.
func (l Link) check() error {
	for _, r := range []unit.Bandwidth{l.Rate, l.Back} {
		if r != 0 && !(r >= minRate && r <= maxRate) {
			return fmt.Errorf("a rate of %v; rates are from %v to %v, or 0 for no limit", r, minRate, maxRate)
		}
	}
	switch {
	case l.Buffer != 0 && (l.Buffer < minBuffer || l.Buffer > maxBuffer):
		return fmt.Errorf("a buffer of %v; it holds from %v (four frames) to %v", l.Buffer, minBuffer, maxBuffer)
	case l.Delay < 0 || l.Delay > maxDelay:
		return fmt.Errorf("a delay of %v; it is from 0 to %v", l.Delay, maxDelay)
	case !(l.Loss >= 0 && l.Loss <= 1):
		return fmt.Errorf("a loss of %v; it is a probability, from 0 to 1", l.Loss)
	}
	return nil
}

// plan is a spec with its segments worked out.
type plan struct {
	segment map[string]int // of a switch
	members [][]string     // hosts of each segment, in the order of Spec.Hosts
	linkOf  map[[2]string]int
}

// addr is the address of the i-th member of a segment.
func addr(segment, i int) netip.Addr {
	i++
	return netip.AddrFrom4([4]byte{10, byte(64 + segment), byte(i >> 8), byte(i)})
}

func (s Spec) plan() (plan, error) {
	bad := func(format string, args ...any) (plan, error) {
		return plan{}, fmt.Errorf("lab: "+format, args...)
	}
	kind := make(map[string]string)
	for k, names := range map[string][]string{"host": s.Hosts, "switch": s.Switches} {
		for _, n := range names {
			switch {
			case !validName.MatchString(n):
				return bad("%s %q: a name is 1 to 15 of a–z, 0–9 and -", k, n)
			case slices.Contains(reserved, n):
				return bad("%s %q: the kernel has this name for itself, take another", k, n)
			case kind[n] != "":
				return bad("the name %s is used twice", n)
			}
			kind[n] = k
		}
	}
	if len(s.Hosts) == 0 {
		return bad("a spec needs a host")
	}

	p := plan{segment: make(map[string]int), linkOf: make(map[[2]string]int)}
	joined := make(map[string]string) // a switch → another of its segment, up to the one that stands for all
	find := func(n string) string {
		for joined[n] != "" {
			n = joined[n]
		}
		return n
	}
	linked := make(map[string]bool)
	for i, l := range s.Links {
		at := fmt.Sprintf("link %d (%s–%s)", i+1, l.A, l.B)
		for _, n := range []string{l.A, l.B} {
			if kind[n] == "" {
				return bad("%s: there is no host or switch %q", at, n)
			}
			linked[n] = true
		}
		_, twice := p.linkOf[[2]string{l.A, l.B}]
		switch {
		case l.A == l.B:
			return bad("%s: joins %s to itself", at, l.A)
		case kind[l.A] == "host" && kind[l.B] == "host":
			return bad("%s: joins two hosts; put a switch between them", at)
		case twice:
			return bad("%s: there is such a link already", at)
		}
		if err := l.check(); err != nil {
			return bad("%s: %w", at, err)
		}
		p.linkOf[[2]string{l.A, l.B}], p.linkOf[[2]string{l.B, l.A}] = i, i
		if kind[l.A] == "switch" && kind[l.B] == "switch" {
			a, b := find(l.A), find(l.B)
			if a == b {
				return bad("%s: closes a loop of switches, in which frames would circle for ever", at)
			}
			joined[b] = a
		}
	}
	for _, h := range s.Hosts {
		if !linked[h] {
			return bad("host %s has no link", h)
		}
	}

	for _, sw := range s.Switches {
		if joined[sw] == "" {
			p.segment[sw] = len(p.members)
			p.members = append(p.members, nil)
		}
	}
	if len(p.members) > maxSegments {
		return bad("%d segments; there are addresses for %d", len(p.members), maxSegments)
	}
	for _, sw := range s.Switches {
		p.segment[sw] = p.segment[find(sw)]
	}
	for _, h := range s.Hosts {
		for _, l := range s.Links {
			sw := l.B
			switch h {
			case l.A:
			case l.B:
				sw = l.A
			default:
				continue
			}
			seg := p.segment[sw]
			if slices.Contains(p.members[seg], h) {
				return bad("host %s has two links into one segment; it may have one", h)
			}
			p.members[seg] = append(p.members[seg], h)
		}
	}
	for _, m := range p.members {
		if len(m) > maxMembers {
			return bad("%d hosts in one segment; there are addresses for %d", len(m), maxMembers)
		}
	}
	return p, nil
}

// frame is an Ethernet frame of full size, as tbf counts it.
const frame unit.Bytes = 1514

// Payload is TCP's share of a rate: of each frame it has all but the headers
// of Ethernet, IP, and its own with timestamps.
func Payload(r unit.Bandwidth) unit.Bandwidth { return r * 1448 / 1514 }

const (
	minRate = 100 * unit.Kbit
	maxRate = 30 * unit.Gbit
)

// shape is what limits one direction of a link.
type shape struct {
	rate   unit.Bandwidth // zero: nothing does
	buffer unit.Bytes
}

// newShape fills in the buffer, if it is zero.
func newShape(rate unit.Bandwidth, buffer unit.Bytes) shape {
	if buffer == 0 {
		buffer = max(64*unit.KiB, unit.Bytes(rate*0.05))
	}
	return shape{rate, buffer}
}

// burst is what may leave at once: the bytes that make up for a late timer. A
// tenth of a millisecond is usual, some milliseconds happen on a busy machine.
// It is a part of the buffer, and must be small beside it.
func (s shape) burst() unit.Bytes {
	return max(2*frame, min(s.buffer/8, unit.Bytes(s.rate*0.01)))
}

// queue is what may wait. What the bucket lets through at once takes room away
// from it, in whole frames, so that a burst finds the buffer that was asked for, and no more.
func (s shape) queue() unit.Bytes { return s.buffer - s.burst()/frame*frame }

// packet is the size of the largest packet that a host may hand down; frame if
// it has to be single ones. One as large as the bucket would have to wait until
// that is full, and what a late timer let run over would be lost to the rate
// (2 to 10 % at 50 Mbit/s).
func (s shape) packet() unit.Bytes {
	const most = 64 * unit.KiB
	if s.rate == 0 {
		return most
	}
	if half := s.burst() / 2; half >= 8*unit.KiB {
		return min(half, most)
	}
	return frame
}

// shapes are what limits l from A to B, and back.
func (l Link) shapes() [2]shape {
	back := l.Back
	if back == 0 {
		back = l.Rate
	}
	return [2]shape{newShape(l.Rate, l.Buffer), newShape(back, l.Buffer)}
}
