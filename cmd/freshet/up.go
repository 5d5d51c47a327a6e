package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/freshet/freshet"
)

// nodeFlags are what "up" and "agent" have in common.
type nodeFlags struct {
	config freshet.NodeConfig
	name   string
	drain  time.Duration
	asJSON bool
	carry  map[string]string // --declare
}

func (n *nodeFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	c := &n.config
	f.StringVar(&c.Listen, "listen", ":"+freshet.DefaultPort, "`HOST:PORT` of the one TCP port; port 0 takes a free one")
	f.StringVar(&c.Advertise, "advertise", "", "`ADDRESS`, HOST:PORT or interface where other nodes reach this one (default: found out)")
	f.StringVar(&c.State, "state", "", "`directory` for credentials and records (default: see above)")
	f.StringVar(&n.name, "name", "", "`name` of the node (default: the host's name up to the first dot)")
	f.StringArrayVar(&c.Roots, "root", nil, "`directory` under which jobs may write; may be given several times")
	f.StringVar(&c.Site, "site", "", "`name` of the place that the node is in, whose nodes share what comes from elsewhere; --nodes site=… selects by it")
	f.StringToStringVar(&c.Labels, "label", nil, "`NAME=VALUE` to select the node by; may be given several times")
	f.Var(&c.RateIn, "rate-in", "cap on what this process receives, e.g. 10Gbit or 300MB/s (default: none)")
	f.Var(&c.RateOut, "rate-out", "cap on what this process sends (default: none)")
	f.StringToStringVar(&n.carry, "declare", nil, "`WHAT=RATE` what this machine's network carries, for the bound that jobs are held against: in, out (of its line), store (what the store gives it); nothing is held to it")
	f.StringVar(&c.Security, "security", freshet.SecurityTLS, "`WAY` in which data travels between nodes: tls, or trusted for plain TCP to and from others that were told so, too")
	f.DurationVar(&n.drain, "drain", 30*time.Second, "`time` for running jobs to end when this process is told to stop; a second signal ends it at once")
	f.BoolVar(&n.asJSON, "json", false, "once ready, print one line of JSON instead of text")
}

// complete fills in what is not on the command line.
func (n *nodeFlags) complete(what ...string) (err error) {
	c := &n.config
	if n.drain < 0 {
		return usage("--drain %v: want a time, such as 30s, or 0s to end running jobs at once", n.drain)
	}
	if c.Declared, err = declared(n.carry, freshet.DeclareIn, freshet.DeclareOut, freshet.DeclareStore); err != nil {
		return err
	}
	if c.Security != freshet.SecurityTLS && c.Security != freshet.SecurityTrusted {
		return usage("--security %q: want tls, or trusted on an isolated network", c.Security)
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return usage("--listen %q: want HOST:PORT, or :PORT for all addresses", c.Listen)
	}
	if c.Agent {
		if c.Name, err = nodeName(n.name); err != nil {
			return err
		}
		what = append(what, c.Name)
	}
	if what[0] == "up" {
		what = what[:1] // one control plane a machine, whatever its agent is called
	}
	if c.State, err = stateDir(c.State, what...); err != nil {
		return err
	}
	for i, dir := range c.Roots {
		if c.Roots[i], err = filepath.Abs(dir); err != nil {
			return fmt.Errorf("--root %s: %w", dir, err)
		}
	}
	c.Version, c.Log = version(), slog.Default()
	return nil
}

// ready is what --json prints of a node.
type ready struct {
	Name  string   `json:"name,omitempty"`
	Addr  string   `json:"addr"`
	Admin string   `json:"admin,omitempty"`
	State string   `json:"state"`
	Roots []string `json:"roots,omitempty"`
	PID   int      `json:"pid"`
}

// serve starts the node, says so, and keeps it until ctx ends or it fails.
func (n *nodeFlags) serve(ctx context.Context, out io.Writer, say func(io.Writer, *freshet.Node)) error {
	slacken()
	go spare(ctx, processorTime)
	node, err := freshet.Start(ctx, n.config)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w: another freshet may run here; --listen HOST:0 takes a free port", err)
		}
		return err
	}
	if n.asJSON {
		line := ready{Name: node.Name(), Addr: node.Addr(), Admin: node.AdminFile(), State: n.config.State, Roots: n.config.Roots, PID: os.Getpid()}
		if err := printJSONLine(out, line); err != nil {
			return errors.Join(err, node.Close())
		}
	} else {
		say(out, node)
	}
	tell(daemon.SdNotifyReady)
	ended := make(chan error, 1)
	go func() { ended <- node.Wait() }() // ends with the node
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	tell(daemon.SdNotifyStopping)
	slog.Info("shutting down", "drain", n.drain)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.drain)
	defer cancel()
	err = node.Shutdown(drain)
	<-ended
	return err
}

// tell tells systemd, if it started this process and wants to know.
func tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		slog.Warn("cannot tell systemd", "state", state, "err", err)
	}
}

func newUp() *cobra.Command {
	n := &nodeFlags{}
	var noAgent bool
	cmd := &cobra.Command{
		Use:     "up",
		GroupID: "cluster",
		Short:   "Run a control plane, and an agent beside it",
		Long: `up runs the control plane of a cluster, and an agent beside it, in one process
and on one TCP port, until it is interrupted. At the first start it makes the
cluster's own certificate authority; it writes the admin's credential, which the
other commands need, to STATE/hub/admin.pem.

The control plane holds who is in the cluster and which jobs there are. No data
passes through it, and running jobs survive its death. An existing NATS cluster
with JetStream can keep its records: --nats. The authority stays in STATE, and there
is one control plane at a time all the same: no other takes its place by itself.

STATE is by default /var/lib/freshet/up for root and
~/.local/state/freshet/up for others (or up in $FRESHET_STATE). Without --root
jobs may write below STATE/../data.`,
		Example: `  freshet up --root /data
  freshet up --no-agent --listen 10.0.0.5:7433
  freshet up --root /data --root /scratch --site east --label gpu=h100 --rate-in 10Gbit`,
		Args: wantArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := &n.config
			c.ControlPlane, c.Agent = true, !noAgent
			if c.NATSCreds != "" && c.NATS == "" {
				return usage("--nats-creds is of no use without --nats")
			}
			if noAgent && len(c.Roots) > 0 {
				return usage("--root belongs to an agent: give either --no-agent or --root")
			}
			if err := n.complete("up"); err != nil {
				return err
			}
			if c.Agent && len(c.Roots) == 0 {
				data := filepath.Join(filepath.Dir(c.State), "data")
				if err := os.MkdirAll(data, 0o755); err != nil {
					return fmt.Errorf("the default root: %w", err)
				}
				c.Roots = []string{data}
			}
			return n.serve(cmd.Context(), cmd.OutOrStdout(), func(w io.Writer, node *freshet.Node) { sayUp(w, c, node) })
		},
	}
	f := cmd.Flags()
	n.add(cmd)
	f.BoolVar(&noAgent, "no-agent", false, "run the control plane alone; this machine takes no part in jobs")
	f.StringVar(&n.config.NATS, "nats", "", "`URL` of an existing NATS cluster with JetStream that keeps the records, of several servers with commas (default: an embedded one)")
	f.StringVar(&n.config.NATSCreds, "nats-creds", "", "credentials `file` for it")
	return cmd
}

// sayUp tells what was started, and what to type next.
func sayUp(w io.Writer, c *freshet.NodeConfig, node *freshet.Node) {
	if c.Agent {
		fmt.Fprintf(w, "The control plane and node %s are up at %s.\n", node.Name(), node.Addr())
	} else {
		fmt.Fprintf(w, "The control plane is up at %s.\n", node.Addr())
	}
	admin := ""
	if def, err := stateDir("", "up"); err != nil || def != c.State {
		admin = " --admin " + node.AdminFile()
	}
	if c.Agent {
		fmt.Fprintf(w, "  jobs may write below  %s\n", strings.Join(c.Roots, ", "))
	}
	fmt.Fprintf(w, "  state                 %s\n", c.State)
	fmt.Fprintf(w, "  admin credential      %s (who has this file rules the cluster; copy it to work from elsewhere)\n", node.AdminFile())
	fmt.Fprintf(w, "Next, get a token here, and let each other machine join with one:\n")
	fmt.Fprintf(w, "  freshet token%s\n", admin)
	fmt.Fprintf(w, "  freshet agent --join %s --token TOKEN --root DIR\n", node.Addr())
	fmt.Fprintf(w, "Then \"freshet nodes%s\" lists them. Ctrl-C ends this one.\n", admin)
}
