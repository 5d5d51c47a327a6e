package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/objstore/open"
)

// broadcast is the command of that name.
type broadcast struct {
	*options
	spec    freshet.Spec
	timeout time.Duration
	detach  bool
	record  string
	report  string
	asJSON  bool
	carries map[string]string // --declare

	out, err io.Writer
}

func newBroadcast(o *options) *cobra.Command {
	b := &broadcast{options: o}
	cmd := &cobra.Command{
		Use:     "broadcast SOURCE DEST",
		GroupID: "jobs",
		Short:   "Bring one object, or all below a prefix, to every node",
		Long: `broadcast brings one object, or all that lie below a prefix, to every node or to
those that --nodes selects, and shows how far each is. It succeeds when every node
has all of it, verified.

SOURCE  s3://bucket/key       with ?endpoint=URL, region=, profile=, path_style=, anonymous= if need be;
                              "%", "?" and "#" in a key are written %25, %3F and %23
        https://host/path     a web server (or http://), readable without a login
        file:///path          the path on each node: shared, or copies of the same size and time
        s3://bucket/prefix/   with a slash at the end: all objects below it, as one job
        file:///path/         likewise all files below a directory
DEST    the absolute path of the file on each node, below one of its roots, or of the
        directory for all below a prefix; {node} in it stands for the node's name

Algorithms: flat, every node downloads everything by itself; non-steal, the nodes
share the download out and exchange; steal, the same, and nodes that are through
take over what slower ones have still before them; stream (the default), the
same without a wait between reading and exchanging, over as many connections to
the store as bring something, and reading from it what others have where that is
faster.

A node gets the object only if it may read SOURCE with its own credentials, and
proves that to the others, unless --share-access says that all may have it.

Nodes that have this version at DEST from an earlier job with the same SOURCE, and
untouched since, fetch nothing. An older file at DEST stays as it is until the new
one is whole and verified, and the new one gets its permissions; where there was
none it has mode 0644, executable at the source or not, and is the agent's user's.
Of several files none is put in its place before all are, and what else lies below
DEST stays. Ctrl-C cancels the job on all nodes; --detach leaves it to itself, and
exits with 0 once it is accepted.`,
		Example: `  freshet broadcast s3://models/llama.bin /data/llama.bin
  freshet broadcast s3://models/llama.bin /data/llama.bin --nodes 'gpu-*,cpu-01' --report out.html
  freshet broadcast 's3://models/m?endpoint=http://10.0.0.9:9000' /data/m --json
  freshet broadcast s3://models/llama/ /data/llama
  freshet broadcast https://example.org/set.tar /data/set.tar --detach`,
		Args: wantArgs("SOURCE", "DEST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b.spec.Source, b.spec.Dest = args[0], args[1]
			b.out, b.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if cmd.Flags().Changed("nodes") && (len(b.spec.Nodes) == 0 || slices.ContainsFunc(b.spec.Nodes, blank)) {
				return usage("--nodes is empty: name nodes, a glob or label=value, or leave it out to mean all nodes")
			}
			if err := b.check(); err != nil {
				return err
			}
			return b.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&b.spec.Nodes, "nodes", nil, "`SELECTOR` of nodes: a name, a glob (gpu-*) or label=value; several with commas or repeated, to have all that one of them matches (default: all)")
	f.StringVar(&b.spec.Algorithm, "algorithm", freshet.DefaultAlgorithm, "`one` of "+strings.Join(freshet.Algorithms, ", "))
	f.Var(&b.spec.Piece, "piece", "size of a piece (default: by the object's size)")
	f.IntVar(&b.spec.PerWork, "per-work", 0, "`number` of pieces in a work of steal or stream, the least that is stolen (default: one with stream, else by the sizes of object and swarm)")
	f.Float64Var(&b.spec.SourceCopies, "source-copies", 0, "`MAX` copies of the object that may leave the source: 1, or less than a piece for each node more, reads nothing twice unless something fails, and waits up to 30 s for a connection that hangs (default: as many as make nodes faster; one where they are of several sites)")
	f.BoolVar(&b.spec.Unpinned, "unpinned", false, "accept a source with neither an ETag nor a date, so that a change meanwhile goes unnoticed")
	f.BoolVar(&b.spec.ShareAccess, "share-access", false, "give the object also to nodes that may not read the source themselves")
	f.BoolVar(&b.spec.SHA256, "sha256", false, "report each node's SHA-256 of the file as it lies on its disk; of several files, that of what sha256sum prints for them by name")
	f.DurationVar(&b.timeout, "timeout", 0, "give up after this `time` (default: never)")
	f.StringToStringVar(&b.carries, "declare", nil, "`WHAT=RATE` what is known of the network, for the bound that the job is held against: store (to all nodes together), site.NAME (into a site, but not the one that the store is in)")
	f.BoolVar(&b.detach, "detach", false, "print the job's ID and leave it to itself")
	f.BoolVar(&b.spec.Record, "keep-recording", false, "let the nodes record every piece, for more pictures in a later \"freshet job ID --report\"; each node keeps its last 50")
	f.StringVar(&b.record, "record", "", "write a recording of the job to this `file`, one event a line")
	f.StringVar(&b.report, "report", "", "write a report with pictures to this HTML `file`")
	jsonFlag(cmd, &b.asJSON)
	o.clientFlags(cmd)
	return cmd
}

// blank is a selector that was to hold something, as of a variable that is not set.
func blank(selector string) bool { return strings.TrimSpace(selector) == "" }

// check finds what can be seen to be wrong from here.
func (b *broadcast) check() error {
	s := &b.spec
	if !strings.Contains(s.Source, "://") {
		path, err := filepath.Abs(s.Source)
		if err != nil {
			return err
		}
		return usage("source %q has no scheme: want s3://bucket/key, https://host/path, or file://%s if every node has that file at this path", s.Source, path)
	}
	if err := open.Check(s.Source); err != nil {
		return usageError{err}
	}
	if !filepath.IsAbs(s.Dest) {
		return usage("destination %q: want an absolute path, such as /data/%s; it is the same on every node", s.Dest, filepath.Base(s.Dest))
	}
	if strings.HasSuffix(s.Dest, "/") && !s.Several() {
		return usage("destination %q is a directory: want the path of the file, such as %s", s.Dest, s.Dest+"NAME")
	}
	if !slices.Contains(freshet.Algorithms, s.Algorithm) {
		return usage("--algorithm %q: want %s", s.Algorithm, strings.Join(freshet.Algorithms, ", "))
	}
	if s.PerWork != 0 && (s.Algorithm == freshet.Flat || s.Algorithm == freshet.NonSteal) {
		return usage("--per-work with --algorithm %s, in which nothing is stolen: leave one of them out", s.Algorithm)
	}
	if b.timeout < 0 || b.timeout > 0 && b.timeout < time.Second {
		return usage("--timeout %v: want at least 1s, or 0 for none", b.timeout)
	}
	var err error
	if s.Declared, err = declared(b.carries, freshet.DeclareStore, freshet.DeclareSite+"NAME"); err != nil {
		return err
	}
	if b.detach && (b.record != "" || b.report != "") {
		return usage("--detach does not wait for the end: use \"freshet job ID --report FILE\" later, and --keep-recording now for all of its pictures")
	}
	s.Timeout = freshet.Duration(b.timeout)
	s.Record = s.Record || b.record != "" || b.report != ""
	return writable(b.record, b.report)
}

// writable sees whether a recording and a report can be made where they are wanted, before the work that they are to tell of.
func writable(record, report string) error {
	if record != "" && report != "" && oneFile(record, report) {
		return usage("--record %s and --report %s are one file, which holds one of them: want two", record, report)
	}
	for _, p := range []string{record, report} {
		if p == "" {
			continue
		}
		if fi, err := os.Stat(p); err == nil && fi.IsDir() {
			return usage("cannot write %s: it is a directory; name a file, such as %s", p, filepath.Join(p, "freshet.html"))
		}
		fi, err := os.Stat(filepath.Dir(p))
		if err == nil && !fi.IsDir() {
			err = fmt.Errorf("%s is not a directory", filepath.Dir(p))
		}
		if err != nil {
			return fmt.Errorf("cannot write %s: %w", p, err)
		}
	}
	return nil
}

// oneFile says whether two paths lead to the same file, whether it is there yet or not.
func oneFile(a, b string) bool {
	same := func(a, b string) bool {
		one, errA := os.Stat(a)
		other, errB := os.Stat(b)
		return errA == nil && errB == nil && os.SameFile(one, other)
	}
	return filepath.Clean(a) == filepath.Clean(b) || same(a, b) || filepath.Base(a) == filepath.Base(b) && same(filepath.Dir(a), filepath.Dir(b))
}

func (b *broadcast) run(ctx context.Context) error {
	f := &follower{out: b.out, err: b.err, quiet: b.asJSON}
	c, err := b.connect(ctx, f.hub)
	if err != nil {
		return err
	}
	defer c.Close()
	job, err := submit(ctx, c, b.spec)
	if err != nil {
		return err
	}
	if b.detach {
		if b.asJSON {
			err = printJSON(b.out, map[string]string{"job": job.ID})
		} else {
			_, err = fmt.Fprintln(b.out, job.ID)
		}
		fmt.Fprintf(b.err, "Job %s goes on by itself; \"freshet job %[1]s\" follows it, \"freshet cancel %[1]s\" ends it.\n", job.ID)
		return err
	}
	job, err = f.follow(ctx, c, job.ID, true)
	if err != nil {
		return err
	}
	return outcome{job: job, recording: b.record, report: b.report, asJSON: b.asJSON, out: b.out, err: b.err}.show(ctx, c)
}

// submit hands a job in. If ctx ends before the answer it waits a little for
// it, so that no job goes on that nobody knows of.
func submit(ctx context.Context, c *freshet.Client, spec freshet.Spec) (freshet.Job, error) {
	type answer struct {
		job freshet.Job
		err error
	}
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	answered := make(chan answer, 1)
	go func() { // ends with late
		job, err := c.Submit(late, spec)
		answered <- answer{job, err}
	}()
	select {
	case a := <-answered:
		return a.job, wayOut(a.err)
	case <-ctx.Done():
	}
	select {
	case a := <-answered:
		if a.err != nil {
			return freshet.Job{}, errInterrupted
		}
		_, err := c.Cancel(late, a.job.ID)
		return freshet.Job{}, errors.Join(fmt.Errorf("%w: job %s was cancelled before it began", errInterrupted, a.job.ID), err)
	case <-time.After(5 * time.Second):
		return freshet.Job{}, fmt.Errorf("%w before the control plane answered: see \"freshet jobs\" for whether it accepted the job", errInterrupted)
	}
}
