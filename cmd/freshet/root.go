package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// options are flags that several commands have.
type options struct {
	admin     string        // file of the admin's credential
	wait      time.Duration // for the control plane to be there
	logLevel  string
	logFormat string
}

// newRoot returns the tree of all commands.
func newRoot() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:   "freshet",
		Short: "Move one object from an object store to every node of a cluster",
		Long: `Freshet moves one object from an object store to every node of a cluster. The
nodes share the download out, take work from slow ones, and pass the pieces on
to each other: where the store is the narrow part the object leaves it once.

A cluster is one machine with a control plane, and agents that join it:

  freshet up --root /data                                 # on one machine
  freshet token --uses N                                  # there, too: prints a token for N others
  freshet agent --join HOST:7433 --token T --root /data   # on each of the others
  freshet broadcast s3://bucket/model.bin /data/model.bin # from the first one

Exit codes: 0 all is well, 1 it failed, 2 the command line makes no sense,
130 interrupted.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(cmd, args[0])
		},
		Version:       version(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return o.setLog(cmd) },

		SuggestionsMinimumDistance: 2,
	}
	f := root.PersistentFlags()
	f.StringVar(&o.logLevel, "log-level", "", "debug, info, warn or error (default info for up and agent, else warn)")
	f.StringVar(&o.logFormat, "log-format", "text", "of the log on standard error: text or json")
	root.AddGroup(
		&cobra.Group{ID: "cluster", Title: "The cluster:"},
		&cobra.Group{ID: "jobs", Title: "Jobs:"},
		&cobra.Group{ID: "try", Title: "To try things out:"})
	root.AddCommand(
		newUp(), newAgent(), newToken(o), newNodes(o), newAdmin(o), newMonitor(o), newDoctor(o), newProbe(o),
		newBroadcast(o), newJobs(o), newJob(o), newCancel(o),
		newDemo(), newSim(), newTopo(), newPlan(), newS3(), newVersion())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%w; see \"%s --help\"", err, cmd.CommandPath())
	})
	root.SetVersionTemplate(versionLine() + "\n")
	root.SetHelpCommand(newHelp())
	usageOfArgs(root)
	hideZeros(root)
	return root
}

func unknownCommand(in *cobra.Command, name string) error {
	if s := in.SuggestionsFor(name); len(s) > 0 {
		return fmt.Errorf("unknown command %q; did you mean %s?", name, strings.Join(s, " or "))
	}
	return fmt.Errorf("unknown command %q; \"freshet help\" lists what there is", name)
}

// newHelp is cobra's help but for commands that there are not: they are an error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		Long:  "help says what a command does, and which flags it has.\n\n  freshet help broadcast",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			if c, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range c.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return usageError{err}
			case len(rest) > 0:
				return usageError{unknownCommand(c, rest[0])}
			}
			c.InitDefaultHelpFlag()
			c.InitDefaultVersionFlag()
			return c.Help()
		},
	}
}

// hideZeros keeps from the help a default that only means "none": the text of
// such a flag says it in words.
func hideZeros(cmd *cobra.Command) {
	for _, name := range []string{"rate-in", "rate-out", "piece", "rate-total", "label", "declare"} {
		if f := cmd.Flags().Lookup(name); f != nil {
			f.DefValue = ""
		}
	}
	for _, c := range cmd.Commands() {
		hideZeros(c)
	}
}

// clientFlags gives cmd the flags of those who speak with the control plane.
func (o *options) clientFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.admin, "admin", "", "admin's credential `file` (default: $FRESHET_ADMIN, else the one of \"freshet up\" on this machine)")
	f.DurationVar(&o.wait, "wait", 0, "`time` to wait for the control plane to be there")
}

// usageOfArgs makes what a command's Args function says a usage error.
func usageOfArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		usageOfArgs(c)
	}
}

// wantArgs accepts just the arguments that names stand for.
func wantArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("%s is missing: want %s; see \"%s --help\"", names[len(args)], cmd.UseLine(), cmd.CommandPath())
		case len(args) > len(names):
			return fmt.Errorf("unexpected argument %q: want %s; see \"%s --help\"", args[len(names)], cmd.UseLine(), cmd.CommandPath())
		}
		return nil
	}
}

// setLog makes the log of the process as the flags say.
func (o *options) setLog(cmd *cobra.Command) error {
	level := slog.LevelWarn
	if slices.Contains([]string{"up", "agent"}, cmd.Name()) {
		level = slog.LevelInfo
	}
	if o.logLevel != "" {
		if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
			return usage("--log-level %q: want debug, info, warn or error", o.logLevel)
		}
	}
	h := &slog.HandlerOptions{Level: level}
	switch o.logFormat {
	case "text":
		slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, h)))
	case "json":
		slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, h)))
	default:
		return usage("--log-format %q: want text or json", o.logFormat)
	}
	return nil
}

// jsonFlag gives cmd the flag --json.
func jsonFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "json", false, "print JSON")
}

// printJSONLine writes v as JSON on one line.
func printJSONLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printJSON writes v as one JSON document.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
