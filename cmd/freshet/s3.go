package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/internal/s3serve"
	"github.com/freshet/freshet/objstore/limit"
)

func newS3() *cobra.Command {
	c := s3serve.Config{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "s3 --dir DIR",
		GroupID: "try",
		Short:   "Serve a directory as an S3 store, for trials and benchmarks",
		Long: `s3 serves a directory as an S3 store until it is interrupted: a directory in it
is a bucket, a file in that is an object, whether it came by PUT or was simply
copied there. Links that lead out of the directory, pipes and the like are
refused. Rates can be capped as real stores do it, each connection by what is
drawn from a distribution when it is opened:

  5MB/s                        every connection the same
  4MB/s-6MB/s                  uniform between the two
  65%:4MB/s-6MB/s,35%:10MB/s   a mixture
  paper, paper*5               what EC2 nodes got from S3 (Chiba et al. 2010), times 5

Its one account has the keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or
random ones that it prints. It is no store for data that anybody would miss.`,
		Example: `  freshet s3 --dir ./store
  freshet s3 --dir ./store --listen 10.0.0.9:9000 --rate-per-connection 'paper*5' --rate-total 1Gbit`,
		Args: wantArgs(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.Dir == "" {
				return usage("--dir is missing: want the directory that holds the buckets")
			}
			if c.Dir, err = filepath.Abs(c.Dir); err != nil { // the library changes the current directory
				return err
			}
			if _, _, err := net.SplitHostPort(c.Listen); err != nil {
				return usage("--listen %q: want HOST:PORT, or :PORT for all addresses", c.Listen)
			}
			c.AccessKey, c.SecretKey = os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")
			if (c.AccessKey == "") != (c.SecretKey == "") {
				return errors.New("one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set and the other is not: set both, or neither")
			}
			c.Region = cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1")
			c.Log = slog.Default()
			given := c.AccessKey != ""
			s, err := s3serve.Start(cmd.Context(), c)
			if err != nil {
				return err
			}
			access, secret := s.Keys()
			out := cmd.OutOrStdout()
			if asJSON {
				ready := map[string]any{
					"endpoint": s.Endpoint(), "access_key": access, "region": c.Region, "dir": c.Dir, "pid": os.Getpid(),
				}
				if !given { // who gave it has it
					ready["secret_key"] = secret
				}
				if err := printJSONLine(out, ready); err != nil {
					return errors.Join(err, s.Close())
				}
			} else {
				if given {
					secret = "$AWS_SECRET_ACCESS_KEY # as it is set here"
				}
				fmt.Fprintf(out, "An S3 store is up at %s; its buckets: %s.\n", s.Endpoint(), buckets(c.Dir))
				fmt.Fprintf(out, "For agents and S3 clients:\n  export AWS_ENDPOINT_URL=%s AWS_REGION=%s\n  export AWS_ACCESS_KEY_ID=%s AWS_SECRET_ACCESS_KEY=%s\n", s.Endpoint(), c.Region, access, secret)
				fmt.Fprintf(out, "A file copied to %s is an object:\n  freshet broadcast s3://BUCKET/FILE /data/FILE\n", filepath.Join(c.Dir, "BUCKET", "FILE"))
			}
			<-cmd.Context().Done()
			connections, sent := s.Connections(), s.Bytes()
			err = s.Close()
			if asJSON {
				err = errors.Join(err, printJSONLine(out, map[string]any{"connections": connections, "object_bytes": sent}))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Dir, "dir", "", "`directory` with the buckets")
	f.StringVar(&c.Listen, "listen", "127.0.0.1:9000", "`HOST:PORT`; port 0 takes a free one")
	f.Var(distribution{&c.PerConnection}, "rate-per-connection", "what each connection gets: see above (default: unlimited)")
	f.Var(distribution{&c.PerClient}, "rate-per-client", "what all connections of one address get together, drawn likewise (default: unlimited)")
	f.Var(&c.Total, "rate-total", "what all get together (default: unlimited)")
	f.Uint64Var(&c.Seed, "seed", 1, "`seed` that rates are drawn with")
	f.BoolVar(&asJSON, "json", false, "print one line of JSON once ready, and one with all connections, their rates and bytes, at the end")
	return cmd
}

// buckets lists the buckets of a directory, for people.
func buckets(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "unreadable"
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && e.Name()[0] != '.' {
			names = append(names, e.Name())
		}
	}
	const most = 8
	switch {
	case len(names) == 0:
		return "none yet (mkdir makes one)"
	case len(names) > most:
		names = append(slices.Clip(names[:most]), "…")
	}
	return fmt.Sprint(names)
}

// distribution is a limit.Distribution as a flag.
type distribution struct{ to *limit.Distribution }

func (d distribution) Set(s string) (err error) { *d.to, err = limit.ParseDistribution(s); return err }
func (d distribution) Type() string             { return "rates" }
func (d distribution) String() string {
	if d.to == nil || d.to.Unlimited() {
		return ""
	}
	return d.to.String()
}
