package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/freshet/freshet"
)

// outcome is a job that has ended, and what is to be told of it.
type outcome struct {
	job               freshet.Job
	recording, report string // files to write; empty: none
	asJSON            bool
	out, err          io.Writer
}

// show tells it all, and returns what the process is to end with.
func (o outcome) show(ctx context.Context, c *freshet.Client) error {
	if ctx.Err() != nil { // what has ended the job is not to end this
		ctx = context.WithoutCancel(ctx)
	}
	courses, err := c.Courses(ctx, o.job.ID)
	if err != nil { // a control plane of an older release, or one that has just gone
		slog.Debug("how the job went on its nodes is unknown", "job", o.job.ID, "err", err)
	}
	if o.job.FileCount > 0 {
		if o.job.Files, err = c.Files(ctx, o.job.ID); err != nil {
			slog.Debug("the names of the files are unknown", "job", o.job.ID, "err", err)
		}
	}
	idle := o.allPresent() && (o.recording != "" || o.report != "")
	if idle { // no node took part, so none has recorded anything
		o.recording, o.report = "", ""
	}
	saved := save(ctx, c, o.job, courses, o.recording, o.report)
	r := newRun(o.job, courses)
	r.tellFiles(o.job.Files)
	if o.asJSON {
		if err := printJSON(o.out, result{Runs: []run{r}}); err != nil {
			return err
		}
	}
	failed := o.complain()
	if failed == nil && !o.asJSON {
		o.sum(r)
	}
	if saved != nil {
		return saved
	}
	if idle {
		to := o.out
		if o.asJSON {
			to = o.err
		}
		fmt.Fprintln(to, "Nothing moved, so there is nothing to report on: no file was written.")
	}
	if !o.asJSON && o.report != "" {
		fmt.Fprintf(o.out, "Report with pictures: %s\n", o.report)
	}
	return failed
}

// complain says on standard error what failed, node by node.
func (o outcome) complain() error {
	j := o.job
	switch j.State {
	case freshet.Done:
		return nil
	case freshet.Cancelled:
		return fmt.Errorf("job %s was cancelled; %s", j.ID, had(j))
	}
	var causes []string
	names := map[string][]string{} // by cause
	var down []string
	told := false
	for _, n := range j.Nodes {
		if n.State == freshet.Done || n.State == freshet.Present {
			continue
		}
		told = told || j.Error == n.Error || strings.HasPrefix(j.Error, n.Name+": "+n.Error)
		why := cmp.Or(n.Error, string(n.State))
		if strings.HasPrefix(why, "down: ") {
			down = append(down, n.Name)
		}
		if names[why] == nil {
			causes = append(causes, why)
		}
		names[why] = append(names[why], n.Name)
	}
	for _, why := range causes {
		fmt.Fprintf(o.err, "freshet: %s: %s\n", group(names[why]), why)
	}
	if !told && j.Error != "" {
		fmt.Fprintf(o.err, "freshet: %s\n", j.Error)
	}
	tellSlow(o.err, "freshet: ", j)
	tellFaults(o.err, "freshet: fault seen by ", j)
	if len(down) > 0 {
		fmt.Fprintf(o.err, "freshet: a node that does not come back: \"freshet nodes remove %s\" forgets it; --nodes leaves it out\n", down[0])
	}
	fmt.Fprintf(o.err, "freshet: job %s failed; %s. Once the cause is mended give the same command again: nodes that have the object are skipped\n", j.ID, had(j))
	return errShown
}

// wayOut adds to an error that no node is up what can be done about it.
func wayOut(err error) error {
	if !errors.Is(err, freshet.ErrDown) {
		return err
	}
	return fmt.Errorf("%w; start its agent, or forget a node that does not come back with \"freshet nodes remove NAME\"", err)
}

// group is nodes with something in common: "node n1", "3 nodes (n1, n2, n3)".
func group(names []string) string {
	if len(names) == 1 {
		return "node " + names[0]
	}
	return fmt.Sprintf("%d nodes (%s)", len(names), few(names))
}

// few are at most a few of the names.
func few(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// allPresent says whether every node held the object before the job.
func (o outcome) allPresent() bool {
	return o.job.State == freshet.Done && !slices.ContainsFunc(o.job.Nodes, func(n freshet.NodeStatus) bool { return n.State != freshet.Present })
}

// had says how many nodes got the object all the same.
func had(j freshet.Job) string {
	n := 0
	for _, k := range j.Nodes {
		if k.State == freshet.Done || k.State == freshet.Present {
			n++
		}
	}
	switch n {
	case 0:
		return "no node has the object, and what was at the destination is untouched"
	case len(j.Nodes):
		return "every node had the object already"
	}
	return fmt.Sprintf("%d of %s have the object", n, count(len(j.Nodes), "node"))
}

// sum says in a few lines how a job went that succeeded.
func (o outcome) sum(r run) {
	j, w := o.job, o.out
	var present []string
	for _, n := range j.Nodes {
		if n.State == freshet.Present {
			present = append(present, n.Name)
		}
	}
	if o.allPresent() {
		fmt.Fprintf(w, "Nothing to do: this version is present on all %s at %s (%s).\n", count(len(j.Nodes), "node"), j.Spec.Dest, size(j))
		return
	}
	fmt.Fprintf(w, "Done: %s %s %s (%s) after %.2f s.\n", count(len(j.Nodes), "node"), have(len(j.Nodes)), j.Spec.Dest, size(j), r.MakespanS)
	_, store, peers, _ := totals(j)
	fmt.Fprintf(w, "  from the store  %s\n  from peers      %s\n", multipleOf(store, j.Object.Size), multipleOf(peers, j.Object.Size))
	switch r.Verified {
	case "source":
		fmt.Fprintln(w, "  verified        against the store's own checksum")
	case "peers":
		fmt.Fprintln(w, "  verified        piece by piece between the nodes; the store has no checksum to compare with")
	}
	if len(present) > 0 {
		fmt.Fprintf(w, "  had it before   %s\n", listed(present))
	}
	var blind, plain []string
	for _, n := range j.Nodes {
		if n.PlainPeers > 0 {
			plain = append(plain, n.Name)
		}
		if n.NoAccess {
			blind = append(blind, n.Name)
		}
	}
	if len(plain) > 0 {
		fmt.Fprintf(w, "  not encrypted   between %s, which trust the network\n", listed(plain))
	}
	if len(blind) > 0 {
		fmt.Fprintf(w, "  by --share-access  %s may not read the source, and got all from others\n", listed(blind))
	}
	tellAccount(w, r)
	if j.Spec.SHA256 {
		for _, n := range r.Nodes {
			if n.SHA256 != "" {
				fmt.Fprintf(w, "  sha256          %s  %s\n", n.SHA256, n.Name)
			}
		}
	}
	tellSlow(w, "  slow            ", j)
	tellFaults(w, "  fault seen      ", j)
}

// tellAccount says how far a job was from what is possible, and what held it up.
func tellAccount(w io.Writer, r run) {
	a := &r.account
	if a.Seconds == 0 {
		return
	}
	p := a.Binding()
	if p == nil {
		fmt.Fprintf(w, "  lower bound     unknown: %s\n", a.Unknown())
	} else {
		fmt.Fprintf(w, "  lower bound     %.2f s by %s, %v (%s); this took %.2f times as long\n", a.Bound, p.Title(), p.Rate, p.Sources(), a.Ratio)
	}
	if why := a.Beaten(); why != "" {
		fmt.Fprintf(w, "  below it        %s\n", why)
	}
	var unknown []string
	for _, p := range a.Parts {
		switch {
		case p.Refuted():
			fmt.Fprintf(w, "  not believed    %s\n", p.Unknown())
		case p.Seconds == 0:
			unknown = append(unknown, p.Title())
		}
	}
	if p != nil && len(unknown) > 0 {
		fmt.Fprintf(w, "  not known       %s: the bound may be higher (freshet probe, or --declare, would tell)\n", listed(unknown))
	}
	if len(a.Entries) > 0 {
		var into []string
		for _, e := range a.Entries {
			into = append(into, fmt.Sprintf("%s %.2f ×", e.Site, e.Copies))
		}
		fmt.Fprintf(w, "  into sites      %s the object\n", listed(into))
	}
	if a.Cause.What != "" {
		fmt.Fprintf(w, "  held up by      %v: %s\n", a.Cause, a.Cause.Why)
	}
	if len(a.Stragglers) > 0 {
		fmt.Fprintf(w, "  far behind      %s\n", listed(a.Stragglers))
	}
	if a.CPUPerGB > 0 {
		fmt.Fprintf(w, "  processor time  %.2f s for each GB that a node got\n", a.CPUPerGB)
	}
}

// tellSlow names the nodes whose connection to the store was slow.
func tellSlow(w io.Writer, label string, j freshet.Job) {
	slow := j.SlowStores()
	for _, n := range j.Nodes {
		if how := slow[n.Name]; how != "" {
			fmt.Fprintf(w, "%snode %s: %s\n", label, n.Name, how)
		}
	}
}

// tellFaults lists what nodes saw go wrong with others.
func tellFaults(w io.Writer, label string, j freshet.Job) {
	const most = 10
	shown, all := 0, 0
	for _, n := range j.Nodes {
		for _, f := range n.Faults {
			if all++; shown < most {
				shown++
				fmt.Fprintf(w, "%s%s: %s: %s\n", label, n.Name, f.Node, f.Cause)
			}
		}
	}
	if all > shown {
		fmt.Fprintf(w, "%sand %d more: --json has them\n", label, all-shown)
	}
}

// count is a number of things: "1 node", "3 nodes".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func have(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// listed is a list of names: all of a few, the first of many.
func listed(names []string) string {
	const most = 12
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
