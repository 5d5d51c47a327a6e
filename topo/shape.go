package topo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/unit"
)

// Shape is a network to be drawn from a seed. All kinds but fattree are trees:
//
//	flat       hosts on one switch
//	star       16 clusters of the same size, each a switch, on one switch
//	intrigger  16 sites of 10 to 50 hosts (if there are 400), on switches of up to 16 hosts each;
//	           sites on 4 regions, those on a core. After the platform that the planner's
//	           paper measured on, whose map was not published
//	deep       18 sites of racks of 5 to 12 hosts; racks, sites, 4 regions, core
//	skewed     10 clusters, the i-th with 1/i of the hosts of the first
//	fattree    pods of edge and aggregation switches, and core switches, of k ports each (Al-Fares
//	           et al., SIGCOMM 2008); k is the smallest even number with hosts ≤ k³/4
//	big        racks of 20 to 40 hosts, pods of 32 racks, core
//
// Hosts are h1, h2, … from the first site to the last.
type Shape struct {
	Kind       string
	Hosts      int            // 0: 400
	Groups     int            // clusters or sites; ports of a fattree's switches; 0: as above
	Lo, Hi     unit.Bandwidth // every link's rate is drawn between them, evenly; both 0: 100Mbit, 1Gbit
	Asymmetric bool           // the two directions of a link are drawn each by itself
	Backbone   float64        // what rates between switches are multiplied by; 0: 1
	Seed       uint64
}

// Kinds are the kinds of Shape.
var Kinds = []string{"flat", "star", "intrigger", "deep", "skewed", "fattree", "big"}

const (
	maxHosts = 200_000 // so many can be read again
	maxPorts = 94      // of a switch of a fat tree, which has room for as many hosts
)

// Delays, one way, of links by what they join. Those of a fat tree differ by up to 1 µs besides, so that
// routes spread over ways that are equally long.
const (
	delayHost   = 50 * time.Microsecond
	delaySite   = 50 * time.Microsecond
	delayRegion = 2 * time.Millisecond
	delayCore   = 5 * time.Millisecond
	delaySpread = time.Microsecond
)

// Streams of randomness: rates are the same whatever else is drawn.
const (
	streamRates = iota
	streamSizes
	streamDelays
)

// Network draws the network.
func (s Shape) Network() (*Network, error) {
	if s.Hosts == 0 {
		s.Hosts = 400
	}
	if s.Lo == 0 && s.Hi == 0 {
		s.Lo, s.Hi = 100*unit.Mbit, unit.Gbit
	}
	if s.Backbone == 0 {
		s.Backbone = 1
	}
	switch {
	case !slices.Contains(Kinds, s.Kind):
		return nil, fmt.Errorf("there is no kind of network %q: want %s", s.Kind, strings.Join(Kinds, ", "))
	case s.Hosts < 1 || s.Hosts > maxHosts:
		return nil, fmt.Errorf("%d hosts: want 1 to %d", s.Hosts, maxHosts)
	case !(s.Lo >= 0) || !(s.Hi >= s.Lo) || math.IsInf(float64(s.Hi), 0):
		return nil, fmt.Errorf("rates from %v to %v: want the smaller first, and none negative", s.Lo, s.Hi)
	case !(s.Backbone > 0) || math.IsInf(s.Backbone, 0):
		return nil, fmt.Errorf("backbone × %v: want a number greater than 0", s.Backbone)
	case float64(s.Hi)*max(1, s.Backbone) > float64(MostRate):
		return nil, fmt.Errorf("rates up to %s, between switches × %v: a link has at most 1000000 Tbit", s.Hi.Bits(), s.Backbone)
	case s.Groups < 0 || s.Groups > s.Hosts && s.Kind != "fattree": // there they are ports
		return nil, fmt.Errorf("%d groups of %d hosts: want no more groups than hosts", s.Groups, s.Hosts)
	}
	for _, r := range []unit.Bandwidth{s.Lo, s.Hi} {
		for _, factor := range []float64{1, s.Backbone} {
			if r > 0 && whole(r, factor) == 0 {
				return nil, fmt.Errorf("rate %s × %v: rates are in whole kbit, so that it would be 0", r.Bits(), factor)
			}
		}
	}
	d := &draft{Shape: s, net: &Network{}}
	d.rates, d.sizes, d.delays = d.stream(streamRates), d.stream(streamSizes), d.stream(streamDelays)
	switch s.Kind {
	case "flat":
		if s.Groups > 1 {
			return nil, fmt.Errorf("%d groups: a flat network is one switch", s.Groups)
		}
		d.hosts(d.sw("s0", ""), "", s.Hosts)
	case "star":
		d.star(make([]float64, d.groups(16)))
	case "skewed":
		weights := make([]float64, d.groups(10))
		for i := range weights {
			weights[i] = 1 / float64(i+1)
		}
		d.star(weights)
	case "intrigger":
		d.sites(d.groups(16), func(n int) []int { return even(n, 16) })
	case "deep":
		d.sites(d.groups(18), func(n int) []int { return d.racks(n, 5, 12) })
	case "fattree":
		if err := d.fatTree(); err != nil {
			return nil, err
		}
	case "big":
		if err := d.big(); err != nil {
			return nil, err
		}
	}
	return d.net, nil
}

// draft is a network while it is drawn.
type draft struct {
	Shape
	net                  *Network
	rates, sizes, delays *rand.Rand
}

func (d *draft) stream(which uint64) *rand.Rand { return rand.New(rand.NewPCG(d.Seed, which)) }

// groups is how many there are, of that many usually.
func (d *draft) groups(usual int) int {
	if d.Groups > 0 {
		return d.Groups
	}
	return min(usual, d.Hosts)
}

// rate draws one, in whole kbit.
func (d *draft) rate(factor float64) unit.Bandwidth {
	return whole(d.Lo+unit.Bandwidth(d.rates.Float64())*(d.Hi-d.Lo), factor)
}

// whole is factor × a rate, in whole kbit.
func whole(r unit.Bandwidth, factor float64) unit.Bandwidth {
	return unit.Bandwidth(math.Round(float64(r)*factor/float64(unit.Kbit))) * unit.Kbit
}

func (d *draft) join(a, b string, factor float64, delay time.Duration) {
	l := Link{A: a, B: b, Rate: d.rate(factor), Delay: delay}
	l.Back = l.Rate
	if d.Asymmetric {
		l.Back = d.rate(factor)
	}
	d.net.Links = append(d.net.Links, l)
}

// sw adds a switch and returns its name.
func (d *draft) sw(name, site string) string {
	d.net.Switches = append(d.net.Switches, Switch{Name: name, Site: site})
	return name
}

// hosts adds n hosts to a switch.
func (d *draft) hosts(sw, site string, n int) {
	for range n {
		h := fmt.Sprintf("h%d", len(d.net.Hosts)+1)
		d.net.Hosts = append(d.net.Hosts, Host{h, site})
		d.join(h, sw, 1, delayHost)
	}
}

// star puts clusters on the switch wan; their sizes are as the weights, all zero: equal.
func (d *draft) star(weights []float64) {
	wan := d.sw("wan", "")
	for i, n := range shares(d.Hosts, weights) {
		site := fmt.Sprintf("site%d", i+1)
		sw := d.sw(fmt.Sprintf("s%d", i+1), site)
		d.hosts(sw, site, n)
		d.join(sw, wan, d.Backbone, delayCore)
	}
}

// sites puts that many sites on regions and those on the switch core. A site's size is 10 to 50 parts of
// the hosts; split says how many are on each of its switches.
func (d *draft) sites(n int, split func(int) []int) {
	core := d.sw("core", "")
	regions := make([]string, min(4, n))
	for i := range regions {
		regions[i] = d.sw(fmt.Sprintf("region%d", i+1), "")
		d.join(regions[i], core, d.Backbone, delayCore)
	}
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = 10 + 40*d.sizes.Float64()
	}
	for i, n := range shares(d.Hosts, weights) {
		site := fmt.Sprintf("site%d", i+1)
		top := d.sw(fmt.Sprintf("s%d", i+1), site)
		d.join(top, regions[i%len(regions)], d.Backbone, delayRegion)
		for k, n := range split(n) {
			leaf := d.sw(fmt.Sprintf("s%d.%d", i+1, k+1), site)
			d.join(leaf, top, d.Backbone, delaySite)
			d.hosts(leaf, site, n)
		}
	}
}

// big puts racks on pods and those on the switch core. A rack is a site.
func (d *draft) big() error {
	racks := d.racks(d.Hosts, 20, 40)
	pods := (len(racks) + 31) / 32
	if d.Groups > 0 {
		pods = d.Groups
	}
	if pods > len(racks) {
		return fmt.Errorf("%d groups: %d hosts are in %d racks with this seed; want no more pods than racks", pods, d.Hosts, len(racks))
	}
	core := d.sw("core", "")
	rack := 0
	for i, n := range shares(len(racks), make([]float64, pods)) {
		pod := d.sw(fmt.Sprintf("pod%d", i+1), "")
		d.join(pod, core, d.Backbone, delaySite)
		for range n {
			site := fmt.Sprintf("rack%d", rack+1)
			sw := d.sw(fmt.Sprintf("r%d", rack+1), site)
			d.join(sw, pod, d.Backbone, delaySite)
			d.hosts(sw, site, racks[rack])
			rack++
		}
	}
	return nil
}

// fatTree fills the edge switches in turn.
func (d *draft) fatTree() error {
	k := d.Groups
	if k == 0 {
		for k = 2; k*k*k/4 < d.Hosts; k += 2 {
		}
	}
	switch {
	case k%2 != 0 || k > maxPorts:
		return fmt.Errorf("a fat tree of switches with %d ports: want an even number up to %d", k, maxPorts)
	case k*k*k/4 < d.Hosts:
		return fmt.Errorf("a fat tree of switches with %d ports has no place for %d hosts: want at least the third root of four times the hosts", k, d.Hosts)
	}
	half := k / 2
	spread := func(base time.Duration) time.Duration {
		return base + time.Duration(d.delays.Int64N(int64(delaySpread)))
	}
	core := make([]string, half*half)
	for i := range core {
		core[i] = d.sw(fmt.Sprintf("c%d", i+1), "")
	}
	at := shares(d.Hosts, make([]float64, k*half)) // by edge switch
	for p := range k {
		site := fmt.Sprintf("pod%d", p+1)
		above := make([]string, half)
		for i := range above {
			above[i] = d.sw(fmt.Sprintf("a%d.%d", p+1, i+1), site)
			for c := range half {
				d.join(above[i], core[i*half+c], d.Backbone, spread(delaySite))
			}
		}
		for i := range half {
			edge := d.sw(fmt.Sprintf("e%d.%d", p+1, i+1), site)
			for _, a := range above {
				d.join(edge, a, d.Backbone, spread(delaySite))
			}
			d.hosts(edge, site, at[p*half+i])
		}
	}
	return nil
}

// racks are sizes from lo to hi, evenly drawn, that add up to n; the last takes what is left.
func (d *draft) racks(n, lo, hi int) (sizes []int) {
	for n > 0 {
		k := min(n, lo+d.sizes.IntN(hi-lo+1))
		if n-k < lo && n <= hi {
			k = n
		}
		sizes = append(sizes, k)
		n -= k
	}
	return sizes
}

// even splits n into as few parts of at most most as there can be, about equal.
func even(n, most int) []int { return shares(n, make([]float64, (n+most-1)/most)) }

// shares splits n by weights, all zero: evenly. Each gets at least one if there are enough.
func shares(n int, weights []float64) []int {
	parts := make([]int, len(weights))
	if len(parts) == 0 {
		return parts
	}
	each, total := 0, 0.0
	if n >= len(parts) {
		each = 1
	}
	for _, w := range weights {
		total += w
	}
	rest := float64(n - each*len(parts))
	sum, given := 0.0, 0
	for i, w := range weights {
		if total > 0 {
			sum += w / total
		} else {
			sum = float64(i+1) / float64(len(parts))
		}
		upTo := int(math.Round(rest * sum)) // rounding what was given so far gives just n in the end
		if i == len(parts)-1 {
			upTo = int(rest)
		}
		parts[i] = each + upTo - given
		given = upTo
	}
	return parts
}
