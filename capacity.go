package freshet

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/unit"
)

// What an operator may declare of a node's network.
const (
	DeclareIn    = "in"    // the rate of its line, headers included, as that of a network card
	DeclareOut   = "out"   // likewise
	DeclareStore = "store" // what the store gives this node, in payload; of a job: gives to all nodes together
	DeclareSite  = "site." // of a job only, and with a site's name: the rate of the line into it, headers included
)

func checkDeclared(declared map[string]unit.Bandwidth) error {
	for what, rate := range declared {
		if what != DeclareIn && what != DeclareOut && what != DeclareStore {
			return fmt.Errorf("a node cannot declare a rate of %q: want %s, %s or %s", what, DeclareIn, DeclareOut, DeclareStore)
		}
		if !(rate > 0) {
			return fmt.Errorf("the declared rate of %s is %v: want more than 0", what, rate)
		}
	}
	return nil
}

// capacities are what this node's network carries as far as it is declared or
// the interface with the advertised address tells.
func (c *NodeConfig) capacities(advertised string) (out account.Capacities) {
	card := cardRate("/sys/class/net", advertised)
	line := func(declared, limit unit.Bandwidth) account.Capacity {
		k := card
		if declared > 0 {
			k = account.Capacity{Rate: account.Payload(declared, 0), From: account.Declared}
		}
		if limit > 0 && (!k.Known() || limit <= k.Rate) {
			k = account.Capacity{Rate: limit, From: account.Declared}
		}
		return k
	}
	out.In, out.Out = line(c.Declared[DeclareIn], c.RateIn), line(c.Declared[DeclareOut], c.RateOut)
	if rate := c.Declared[DeclareStore]; rate > 0 {
		out.Store = account.Capacity{Rate: rate, From: account.Declared}
	}
	return out
}

// cardRate is the payload that the network interface with the address of
// HOST:PORT carries, as Linux tells it below dir; unknown if it does not.
func cardRate(dir, hostport string) account.Capacity {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return account.Capacity{}
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return account.Capacity{}
	}
	for _, ifc := range interfaces {
		addrs, err := ifc.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(net.ParseIP(host)) {
				return speedOf(dir, ifc.Name, ifc.MTU)
			}
		}
	}
	return account.Capacity{}
}

// speedOf is what an interface says of its speed, if there is a network card
// behind it: virtual ones make their speed up.
func speedOf(dir, name string, mtu int) account.Capacity {
	if !hasCard(dir, name, 3) {
		return account.Capacity{}
	}
	b, err := os.ReadFile(filepath.Join(dir, name, "speed"))
	if err != nil {
		return account.Capacity{}
	}
	mbit, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || mbit <= 0 || mbit >= 1<<31-1 { // -1, also as an unsigned number: unknown
		return account.Capacity{}
	}
	return account.Capacity{Rate: account.Payload(unit.Bandwidth(mbit)*unit.Mbit, mtu), From: account.NIC}
}

// hasCard says whether an interface is a card, or one on top of cards.
func hasCard(dir, name string, depth int) bool {
	if _, err := os.Stat(filepath.Join(dir, name, "device")); err == nil {
		return true
	}
	below, err := filepath.Glob(filepath.Join(dir, name, "lower_*"))
	if err != nil || depth == 0 {
		return false
	}
	return slices.ContainsFunc(below, func(path string) bool {
		return hasCard(dir, strings.TrimPrefix(filepath.Base(path), "lower_"), depth-1)
	})
}

// history is the most that went through this node in a second of each of its
// last jobs, kept in a file: other jobs are what one job's capacities may be taken from.
type history struct {
	path string

	mu   sync.Mutex // guards jobs
	jobs []pastJob  // oldest first
}

type pastJob struct {
	Job   string       `json:"job"`
	Store string       `json:"store"` // which, as storeOf names it
	Peak  account.Peak `json:"peak"`
}

// readsHere says whether what a node reads in a job comes over no link, but from its disk, or from wherever the file system has it. One
// that may not read the source gets everything from others, over its link.
func readsHere(job control.Job, name string) bool {
	return local(job.Spec) && !slices.ContainsFunc(job.Members, func(m control.Member) bool { return m.Name == name && m.NoAccess })
}

// past is what a node remembers of a job. What it read that was here already says nothing of the link.
func past(job control.Job, name string, peak account.Peak) pastJob {
	if readsHere(job, name) {
		peak.In = 0
	}
	return pastJob{job.ID, storeOf(job.Spec.Source), peak}
}

// keepPast is how many jobs are remembered: a network that has become slower
// is not held against what it was for long.
const keepPast = 20

// openHistory reads the file if there is one. One that cannot be read is begun anew.
func openHistory(path string) *history {
	h := &history{path: path}
	if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &h.jobs) != nil {
		h.jobs = nil
	}
	return h
}

// most is the most that was seen, of the store in jobs that read the same.
func (h *history) most(store string) (p account.Peak) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, j := range h.jobs {
		p.In, p.Out = max(p.In, j.Peak.In), max(p.Out, j.Peak.Out)
		if j.Store == store {
			p.Store = max(p.Store, j.Peak.Store)
		}
	}
	return p
}

// add notes a job that has ended here.
func (h *history) add(j pastJob) error {
	if j.Peak == (account.Peak{}) { // it did not last a second
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.jobs = append(h.jobs, j)
	h.jobs = h.jobs[max(0, len(h.jobs)-keepPast):]
	b, err := json.Marshal(h.jobs)
	if err != nil {
		return err
	}
	return pki.WriteFile(h.path, b)
}

// storeOf names the store of a source: its scheme, its bucket or host, and the endpoint.
func storeOf(source string) string {
	u, err := url.Parse(source)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(u.Scheme + "://" + u.Host + " " + u.Query().Get("endpoint"))
}

// carries is what the network of this node, which the job knows by name, carries for a job that begins now: what is
// not declared and not told by the network card is the most that went through in a probe or in other jobs.
func (w *worker) carries(job control.Job, name string) account.Capacities {
	store := storeOf(job.Spec.Source)
	c, past, probed := w.network, w.history.most(store), w.probes.carries(store)
	if readsHere(job, name) { // its link bounds nothing
		c.In, past.In, probed.In = account.Capacity{}, 0, account.Capacity{}
	}
	most := func(k, probed account.Capacity, seen unit.Bandwidth) account.Capacity {
		switch {
		case k.Known():
			return k
		case probed.Rate >= seen && probed.Known():
			return probed
		case seen > 0:
			return account.Capacity{Rate: seen, From: account.Seen}
		}
		return k
	}
	c.In, c.Out, c.Store = most(c.In, probed.In, past.In), most(c.Out, probed.Out, past.Out), most(c.Store, probed.Store, past.Store)
	switch {
	case local(job.Spec): // what the file system gives does not come in
	case !c.In.Known() || !c.Store.Known() || c.Store.Rate <= c.In.Rate:
	case c.In.From.AtLeast() && c.Store.From.AtLeast(): // what the store gives has come in
		c.In = c.Store
	default:
		c.Store = c.In
	}
	return c
}
