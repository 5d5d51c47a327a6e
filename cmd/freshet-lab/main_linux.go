// Command freshet-lab builds networks on one machine, for people: package
// internal/lab has what they are made of. "freshet-lab up" builds one and is
// its owner; the other commands speak with the owner over a socket, since
// delays and losses live in its process.
//
//	main_linux.go   the tree of commands
//	up_linux.go     the owner
//	ask_linux.go    the socket: what is asked of an owner, and how it answers
//	verbs_linux.go  the commands that ask
package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

//go:embed examples/*.yaml
var examples embed.FS

func main() { os.Exit(execute()) }

func execute() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once; the next lab sweeps
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "freshet-lab: %v\n", err)
		return 1
	}
	return 0
}

// place says which lab a command is about.
type place struct {
	dir string // of the sockets
	lab string // empty: the only one there is
}

func newRoot() *cobra.Command {
	p := &place{}
	root := &cobra.Command{
		Use:   "freshet-lab",
		Short: "Build networks with limits, delays and faults on one machine",
		Long: `Freshet-lab builds a network of hosts, switches and links on one machine, each
link with a rate and a buffer in each direction, with delay and loss. Hosts are
network namespaces. It needs root.

  freshet-lab example sites >sites.yaml
  freshet-lab up --detach sites.yaml
  freshet-lab exec a0 iperf3 -s -D
  freshet-lab exec b0 iperf3 -c a0
  freshet-lab set a b --rate 20Mbit --delay 50ms
  freshet-lab traffic
  freshet-lab down

A spec looks like this (example sites):

` + indent(example("sites")) + `
Rates are of Ethernet frames: TCP gets 1448 of each 1514 bytes. A link without
a rate is unlimited; without "back", B→A is as A→B; without a buffer, each rate
has one of 50 ms. Delay and loss hold in each direction. Which packets are lost
depends on "seed", 1 where the spec has none.`,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q; freshet-lab help lists what there is", args[0])
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return mayRun(cmd.Name(), os.Geteuid()) },
	}
	f := root.PersistentFlags()
	f.StringVar(&p.lab, "lab", "", "`name` of the lab (default: the only one there is; for up: lab)")
	f.StringVar(&p.dir, "run-dir", "/run/freshet-lab", "`directory` of the labs' sockets")
	root.AddCommand(newUp(p), newExec(p), newList(p), newTraffic(p), newSet(p),
		newCut(p), newMend(p), newPartition(p), newHeal(p),
		newKill(p), newStop(p), newContinue(p), newDown(p), newExample())
	for _, cmd := range root.Commands() {
		check := cmd.Args
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if check(cmd, args) != nil {
				return fmt.Errorf("want freshet-lab %s; freshet-lab %s --help says more", cmd.Use, cmd.Name())
			}
			return nil
		}
	}
	return root
}

// mayRun refuses what would fail for want of rights, with less telling words.
func mayRun(command string, euid int) error {
	switch command {
	case "freshet-lab", "example", "help", "completion", "bash", "zsh", "fish", "powershell":
		return nil
	}
	if euid != 0 {
		return fmt.Errorf("%s needs root: sudo freshet-lab %[1]s …", command)
	}
	return nil
}

func example(name string) string {
	b, err := examples.ReadFile("examples/" + name + ".yaml")
	if err != nil {
		return ""
	}
	return string(b)
}

func exampleNames() (names []string) {
	files, _ := fs.Glob(examples, "examples/*.yaml") // an error is of the pattern
	for _, f := range files {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(f, "examples/"), ".yaml"))
	}
	return names
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") + "\n"
}

func newExample() *cobra.Command {
	return &cobra.Command{
		Use:       "example NAME",
		Short:     "Print a spec to start from: " + strings.Join(exampleNames(), ", "),
		Args:      cobra.ExactArgs(1),
		ValidArgs: exampleNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			s := example(args[0])
			if s == "" {
				return fmt.Errorf("there is no example %q; there are %s", args[0], strings.Join(exampleNames(), ", "))
			}
			fmt.Fprint(cmd.OutOrStdout(), s)
			return nil
		},
	}
}
