package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/unit"
)

// request is what is asked of an owner, one on a connection.
type request struct {
	Verb  string
	Names []string `json:",omitempty"` // of hosts and switches

	// Of "set"; nil: leave it as it is.
	Rate, Back *unit.Bandwidth `json:",omitempty"`
	Delay      *time.Duration  `json:",omitempty"`
	Loss       *float64        `json:",omitempty"`
}

// answer is what the owner says.
type answer struct {
	Error   string          `json:",omitempty"`
	Name    string          `json:",omitempty"` // of the lab's namespaces
	Seed    uint64          `json:",omitempty"`
	Hosts   []host          `json:",omitempty"`
	Links   []lab.LinkState `json:",omitempty"`
	Traffic []lab.Traffic   `json:",omitempty"`
}

type host struct {
	Name  string
	Addrs []netip.Addr
}

// patience is for an owner's answer: it may have processes to wait for.
const patience = 60 * time.Second

// do does what is asked, but for "down".
func do(l *lab.Lab, r request) (a answer, err error) {
	want := func(n int) error {
		if len(r.Names) != n {
			return fmt.Errorf("%s needs %d names, not %d", r.Verb, n, len(r.Names))
		}
		return nil
	}
	link := func(f func(a, b string) error) error {
		if err := want(2); err != nil {
			return err
		}
		return f(r.Names[0], r.Names[1])
	}
	each := func(f func(host string) error) error {
		var errs []error
		for _, h := range r.Names {
			errs = append(errs, f(h))
		}
		return errors.Join(errs...)
	}
	switch r.Verb {
	case "list":
		a.Name, a.Seed, a.Links = l.Name(), l.Spec().Seed, l.Links()
		for _, h := range l.Spec().Hosts {
			a.Hosts = append(a.Hosts, host{h, l.Addrs(h)})
		}
	case "traffic":
		a.Traffic, err = l.Traffic()
	case "set":
		err = link(func(a, b string) error {
			var errs []error
			if r.Rate != nil {
				back := *r.Rate
				if r.Back != nil {
					back = *r.Back
				}
				errs = append(errs, l.SetRate(a, b, *r.Rate, back))
			}
			if r.Delay != nil {
				errs = append(errs, l.SetDelay(a, b, *r.Delay))
			}
			if r.Loss != nil {
				errs = append(errs, l.SetLoss(a, b, *r.Loss))
			}
			return errors.Join(errs...)
		})
	case "cut":
		err = link(l.Cut)
	case "mend":
		err = link(l.Mend)
	case "partition":
		err = l.Partition(r.Names...)
	case "heal":
		err = l.Heal()
	case "kill":
		err = each(l.Kill)
	case "stop":
		err = each(l.Stop)
	case "continue":
		err = each(l.Continue)
	default:
		err = fmt.Errorf("this owner knows no %q; it may be of another version", r.Verb)
	}
	return a, err
}

// names are the labs whose sockets are in the directory, also of dead owners.
func (p *place) names() []string {
	found, _ := filepath.Glob(filepath.Join(p.dir, "*.sock")) // an error is of the pattern
	for i, f := range found {
		found[i] = strings.TrimSuffix(filepath.Base(f), ".sock")
	}
	return found
}

func (p *place) socket(name string) string { return filepath.Join(p.dir, name+".sock") }

// log is what an owner in the background says on standard error.
func (p *place) log(name string) string { return filepath.Join(p.dir, name+".log") }

// one is the lab that a command is about.
func (p *place) one() (string, error) {
	if p.lab != "" {
		return p.lab, nil
	}
	switch names := p.names(); len(names) {
	case 0:
		return "", errors.New("there is no lab; freshet-lab up SPEC builds one")
	case 1:
		return names[0], nil
	default:
		return "", fmt.Errorf("there are the labs %s: say which by --lab NAME", strings.Join(names, ", "))
	}
}

// ask asks the owner of the lab that the command is about.
func (p *place) ask(ctx context.Context, r request) (answer, error) {
	name, err := p.one()
	if err != nil {
		return answer{}, err
	}
	return p.askOf(ctx, name, r)
}

func (p *place) askOf(ctx context.Context, name string, r request) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "unix", p.socket(name))
	if errors.Is(err, os.ErrNotExist) {
		return a, fmt.Errorf("there is no lab %q; freshet-lab list names those that there are", name)
	}
	if err != nil {
		return a, fmt.Errorf("lab %s: no owner answers (%w); freshet-lab down --all removes what a dead one left", name, err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return a, fmt.Errorf("lab %s: ask its owner: %w", name, err)
	}
	if err := json.NewDecoder(c).Decode(&a); err != nil {
		return a, fmt.Errorf("lab %s: answer of its owner: %w", name, err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// claim listens where the lab is to be asked, and takes the place of an owner
// that is dead.
func (p *place) claim(ctx context.Context, name string) (net.Listener, error) {
	if name == "" || strings.ContainsAny(name, "/.") {
		return nil, fmt.Errorf("a lab cannot be named %q: it becomes the name of a file", name)
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, err
	}
	path := p.socket(name)
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		c.Close()
		return nil, fmt.Errorf("lab %s is there already; freshet-lab down %[1]s ends it, up --lab NAME builds another beside it", name)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}
