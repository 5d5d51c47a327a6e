package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/objstore/open"
)

func newJobs(o *options) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "jobs",
		GroupID: "jobs",
		Short:   "List the jobs that run, and those that have ended",
		Long:    "jobs lists the jobs that the control plane remembers, newest first.",
		Example: "  freshet jobs\n  freshet jobs --json | jq '.jobs[0].state'",
		Args:    wantArgs(),
		RunE: o.connected(func(cmd *cobra.Command, c *freshet.Client, _ []string) error {
			jobs, err := c.Jobs(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"jobs": jobs})
			}
			return printJobs(cmd.OutOrStdout(), jobs, time.Now())
		}),
	}
	jsonFlag(cmd, &asJSON)
	o.clientFlags(cmd)
	return cmd
}

func printJobs(out io.Writer, jobs []freshet.Job, now time.Time) error {
	if len(jobs) == 0 {
		_, err := fmt.Fprintln(out, "No jobs yet: \"freshet broadcast SOURCE DEST\" makes one.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tSTARTED\tNODES\tSIZE\tALGORITHM\tSOURCE\tDEST")
	for _, j := range jobs {
		has := 0
		for _, n := range j.Nodes {
			if n.State == freshet.Done || n.State == freshet.Present {
				has++
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d/%d\t%v\t%s\t%s\t%s\n", j.ID, j.State, ago(now.Sub(j.Accepted)), has, len(j.Nodes),
			j.Object.Size, j.Spec.Algorithm, open.Redact(j.Spec.Source), j.Spec.Dest)
	}
	return w.Flush()
}

func newJob(o *options) *cobra.Command {
	var asJSON, noWait bool
	var recording, html string
	cmd := &cobra.Command{
		Use:     "job ID",
		GroupID: "jobs",
		Short:   "Follow a job, or tell how it ended",
		Long: `job follows a running job to its end, as "freshet broadcast" does, or tells how
one ended. ID may be cut short as long as it is the only one that begins so.
Ctrl-C ends the following, not the job.

It says how long the job took beside the least that it could have taken, what
held it up, and where that is known from; --report writes a page with pictures,
with more of them if the job was recorded (--record, --report or
--keep-recording of broadcast).`,
		Example: "  freshet job 1a2b\n  freshet job 1a2b --no-wait --json\n  freshet job 1a2b --report out.html",
		Args:    wantArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := writable(recording, html); err != nil {
				return err
			}
			f := &follower{out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(), quiet: asJSON}
			c, err := o.connect(cmd.Context(), f.hub)
			if err != nil {
				return err
			}
			defer c.Close()
			job, err := c.Job(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !job.State.Ended() {
				if noWait {
					return printRunning(cmd.OutOrStdout(), job, asJSON)
				}
				if job, err = f.follow(cmd.Context(), c, job.ID, false); err != nil {
					return err
				}
			}
			return outcome{job: job, recording: recording, report: html, asJSON: asJSON, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}.show(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&noWait, "no-wait", false, "tell how a running job stands, and do not follow it; exits with 0")
	f.StringVar(&recording, "record", "", "write the job's recording to this `file`")
	f.StringVar(&html, "report", "", "write a report with pictures to this HTML `file`")
	jsonFlag(cmd, &asJSON)
	o.clientFlags(cmd)
	return cmd
}

// printRunning tells how a running job stands.
func printRunning(out io.Writer, job freshet.Job, asJSON bool) error {
	if asJSON {
		return printJSON(out, result{Runs: []run{newRun(job, nil)}})
	}
	fmt.Fprintln(out, heading(job))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tSTATE\tHAS\tFROM STORE\tFROM PEERS\tNOTE")
	files := func(n freshet.NodeStatus) string {
		if job.FileCount < 2 {
			return ""
		}
		return fmt.Sprintf(", %d of %d files", n.Files, job.FileCount)
	}
	for _, n := range job.Nodes {
		note := n.Error
		if note == "" && n.Waiting != "" {
			note = "waits for " + n.Waiting
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%v\t%s\n", n.Name, n.State, percent(n.Have, job.Object.Size)+files(n), n.StoreBytes, n.PeerBytes, note)
	}
	return w.Flush()
}

func newCancel(o *options) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "cancel ID",
		GroupID: "jobs",
		Short:   "Cancel a job on all nodes",
		Long: `cancel ends a job on all nodes. Nodes that have the object already keep it;
the others leave what was at the destination as it was.`,
		Example: "  freshet cancel 1a2b",
		Args:    wantArgs("ID"),
		RunE: o.connected(func(cmd *cobra.Command, c *freshet.Client, args []string) error {
			job, err := c.Cancel(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			f := &follower{out: io.Discard, err: cmd.ErrOrStderr(), quiet: true}
			if job, err = f.follow(cmd.Context(), c, job.ID, false); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), result{Runs: []run{newRun(job, nil)}})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Job %s is %s; %s.\n", job.ID, job.State, had(job))
			return err
		}),
	}
	jsonFlag(cmd, &asJSON)
	o.clientFlags(cmd)
	return cmd
}
