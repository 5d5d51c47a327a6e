package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/unit"
)

// verb is a command that hands its arguments to the owner.
func verb(p *place, use, short string, args cobra.PositionalArgs) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: args}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, err := p.ask(cmd.Context(), request{Verb: cmd.Name(), Names: args})
		return err
	}
	return cmd
}

func newCut(p *place) *cobra.Command {
	return verb(p, "cut A B", "Make a link lose everything; nothing tells either end", cobra.ExactArgs(2))
}

func newMend(p *place) *cobra.Command { return verb(p, "mend A B", "End a cut", cobra.ExactArgs(2)) }

func newPartition(p *place) *cobra.Command {
	return verb(p, "partition NAME...", "Separate these hosts and switches from all others", cobra.MinimumNArgs(1))
}

func newHeal(p *place) *cobra.Command { return verb(p, "heal", "End all partitions", cobra.NoArgs) }

func newKill(p *place) *cobra.Command {
	return verb(p, "kill HOST...", "Kill all processes of hosts", cobra.MinimumNArgs(1))
}

func newStop(p *place) *cobra.Command {
	return verb(p, "stop HOST...", "Make all processes of hosts stand still", cobra.MinimumNArgs(1))
}

func newContinue(p *place) *cobra.Command {
	return verb(p, "continue HOST...", "End a stop", cobra.MinimumNArgs(1))
}

func newSet(p *place) *cobra.Command {
	var rate, back unit.Bandwidth
	var delay time.Duration
	var loss float64
	cmd := &cobra.Command{
		Use:   "set A B",
		Short: "Change a link while it is used",
		Long: `Change the link between two neighbours, a host and its switch or two switches,
while it is used. What is not given stays as it is.`,
		Example: "  freshet-lab set n0 sw --rate 20Mbit --back 50Mbit",
		Args:    cobra.ExactArgs(2),
	}
	f := cmd.Flags()
	f.Var(&rate, "rate", "from A to B; 0: unlimited")
	f.Var(&back, "back", "from B to A (default: as --rate)")
	f.Lookup("rate").DefValue, f.Lookup("back").DefValue = "", "" // none: the text says it
	f.DurationVar(&delay, "delay", 0, "`time` one way; the spec must have had a delay or a loss")
	f.Float64Var(&loss, "loss", 0, "`probability` that a packet is lost; as for --delay")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r := request{Verb: "set", Names: args}
		if f.Changed("rate") {
			r.Rate = &rate
		}
		if f.Changed("back") {
			if r.Back = &back; r.Rate == nil {
				return errors.New("--back needs --rate beside it")
			}
		}
		if f.Changed("delay") {
			r.Delay = &delay
		}
		if f.Changed("loss") {
			r.Loss = &loss
		}
		if r.Rate == nil && r.Delay == nil && r.Loss == nil {
			return errors.New("set what? --rate, --back, --delay or --loss")
		}
		_, err := p.ask(cmd.Context(), r)
		return err
	}
	return cmd
}

func newExec(p *place) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec HOST COMMAND [ARG...]",
		Short: "Run a command in a host",
		Long: `Run a command in a host, with its network and its hostname. The names of the
hosts are in its /etc/hosts: of each the address that this one reaches. The
command ends with the lab; its exit code is that of exec.`,
		Example: "  freshet-lab exec n0 ping n1\n  freshet-lab exec n0 bash",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := p.ask(cmd.Context(), request{Verb: "list"})
			if err != nil {
				return err
			}
			for _, h := range a.Hosts {
				if h.Name == args[0] {
					return lab.Exec(a.Name, h.Name, namesFor(h, a.Hosts), args[1:])
				}
			}
			return fmt.Errorf("there is no host %q; freshet-lab list shows them", args[0])
		},
	}
	cmd.Flags().SetInterspersed(false) // the command's flags are its own
	return cmd
}

// namesFor is /etc/hosts of a host: all that have an address in a segment of it.
func namesFor(h host, all []host) string {
	segment := func(a netip.Addr) netip.Prefix { p, _ := a.Prefix(16); return p } // an error is of the 16
	text := "127.0.0.1 localhost\n"
	for _, other := range all {
		for _, a := range other.Addrs {
			if slices.ContainsFunc(h.Addrs, func(mine netip.Addr) bool { return segment(mine) == segment(a) }) {
				text += fmt.Sprintf("%v %s\n", a, other.Name)
			}
		}
	}
	return text
}

func newList(p *place) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show labs with their hosts and links, as they are now",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.each(cmd, "list", print)
		},
	}
}

func newTraffic(p *place) *cobra.Command {
	return &cobra.Command{
		Use:   "traffic",
		Short: "Show what links have sent, dropped and lost",
		Long: `Show what each direction of each link has done since the lab was built:

  frames    and bytes that its rate let through; without a rate, what its
  sent      interface sent, where a packet of up to 64 KiB is one frame (large
            packets that came over a link with delay are in the bytes alone)
  queued    bytes that wait in its buffer now
  dropped   packets that found no room in the buffer
  lost      packets that chance took, of those sent
  overrun   packets that this machine was too busy to carry on: if there are
            any, what you measure is the machine`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.each(cmd, "traffic", printTraffic) },
	}
}

// each shows what the owners of all labs answer, or that of the one named.
func (p *place) each(cmd *cobra.Command, verb string, show func(out io.Writer, name string, a answer)) error {
	names := p.names()
	if p.lab != "" {
		names = []string{p.lab}
	}
	if len(names) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "There is no lab; freshet-lab up SPEC builds one.")
	}
	var errs []error
	for _, name := range names {
		a, err := p.askOf(cmd.Context(), name, request{Verb: verb})
		if err == nil {
			show(cmd.OutOrStdout(), name, a)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func printTraffic(out io.Writer, name string, a answer) {
	fmt.Fprintf(out, "lab %s\n", name)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "  from\tto\tframes\tsent\tqueued\tdropped\tlost\toverrun")
	for _, t := range a.Traffic {
		fmt.Fprintf(w, "  %s\t%s\t%d\t%v\t%v\t%d\t%d\t%d\n", t.From, t.To, t.Packets, t.Bytes, t.Queued, t.Dropped, t.Lost, t.Overrun)
	}
}

// print shows a lab.
func print(out io.Writer, name string, a answer) {
	fmt.Fprintf(out, "lab %s, namespaces %s-HOST, seed %d\n", name, a.Name, a.Seed)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	for _, h := range a.Hosts {
		fmt.Fprintf(w, "  %s\t%s\n", h.Name, strings.Trim(fmt.Sprint(h.Addrs), "[]"))
	}
	w.Flush()
	for _, k := range a.Links {
		back := k.Back
		if back == 0 {
			back = k.Rate
		}
		fmt.Fprintf(w, "  %s–%s\t%s, back %s", k.A, k.B, bits(k.Rate), bits(back))
		if k.Buffer > 0 {
			fmt.Fprintf(w, ", buffer %v", k.Buffer)
		}
		if k.Delay > 0 {
			fmt.Fprintf(w, ", delay %v", k.Delay)
		}
		if k.Loss > 0 {
			fmt.Fprintf(w, ", loss %v", k.Loss)
		}
		if k.Cut {
			fmt.Fprint(w, ", cut")
		}
		if k.Parted {
			fmt.Fprint(w, ", parted")
		}
		fmt.Fprintln(w)
	}
}

func bits(r unit.Bandwidth) string {
	if r == 0 {
		return "unlimited"
	}
	return fmt.Sprintf("%.4g Mbit/s", float64(r/unit.Mbit))
}

func newDown(p *place) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "down [NAME]",
		Short: "End a lab, and all processes in it; with --all, all labs, and what dead owners left",
		Args:  cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&all, "all", false, "all labs of \"up\", and what dead owners left; labs of running tests are spared")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if all {
			if len(args) > 0 || p.lab != "" {
				return errors.New("--all ends all labs: leave the name out")
			}
			return p.downAll(cmd.Context(), cmd.OutOrStdout())
		}
		if len(args) > 0 {
			p.lab = args[0]
		}
		name, err := p.one()
		if err != nil {
			return err
		}
		if _, err := p.askOf(cmd.Context(), name, request{Verb: "down"}); err != nil {
			return err
		}
		return p.forget(name)
	}
	return cmd
}

func (p *place) downAll(ctx context.Context, out io.Writer) error {
	var errs []error
	for _, name := range p.names() {
		_, err := p.askOf(ctx, name, request{Verb: "down"})
		if err == nil || errors.Is(err, syscall.ECONNREFUSED) { // it is over, or its owner was dead
			err = p.forget(name)
		}
		errs = append(errs, err)
	}
	swept, err := lab.Sweep()
	for _, name := range swept {
		fmt.Fprintf(out, "removed %s, whose owner is dead\n", name)
	}
	return errors.Join(append(errs, err)...)
}

// forget removes the files of a lab that is over.
func (p *place) forget(name string) error {
	for _, path := range []string{p.socket(name), p.log(name)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
