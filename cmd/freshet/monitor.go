package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/pki"
)

func newMonitor(o *options) *cobra.Command {
	var out, name string
	cmd := &cobra.Command{
		Use:     "monitor --out DIR",
		GroupID: "cluster",
		Short:   "Make a certificate for Prometheus, and a scrape configuration",
		Long: `monitor makes a certificate with which the metrics of all nodes can be read, and
nothing else: its holder can neither submit jobs nor get a piece of an object. It
writes ca.pem, monitor.pem and monitor.key to DIR, and prints a configuration for
Prometheus with the nodes of the cluster as they are now. Every process serves
/metrics on its one port, and /healthz and /livez, which need no certificate.

Only who made the key can read it: give it to the user that Prometheus runs as. The
job that is printed goes to those below scrape_configs in prometheus.yml; from
Prometheus 2.43 on scrape_config_files there can name the file with it instead.`,
		Example: `  freshet monitor --out /etc/prometheus/freshet >freshet.yml
  chown prometheus /etc/prometheus/freshet/monitor.key
  curl --cacert ca.pem --cert monitor.pem --key monitor.key \
    --connect-to ::10.0.0.5:7433 https://metrics.freshet/metrics`,
		Args: wantArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return usage("--out is missing: want a directory for the certificate and its key")
			}
			if err := pki.CheckName(name); err != nil {
				return usage("--name: %w", err)
			}
			dir, err := filepath.Abs(out)
			if err != nil {
				return err
			}
			c, err := o.connect(cmd.Context(), nil)
			if err != nil {
				return err
			}
			defer c.Close()
			nodes, err := c.Nodes(cmd.Context())
			if err != nil {
				return err
			}
			creds, err := c.Monitor(cmd.Context(), name)
			if err != nil {
				return err
			}
			if err := writeMonitor(dir, creds); err != nil {
				return err
			}
			return printScrape(cmd.OutOrStdout(), dir, c.Hub(), nodes, creds.Expires())
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "`directory` to write to, made if need be")
	f.StringVar(&name, "name", "prometheus", "`name` in the certificate")
	o.clientFlags(cmd)
	cmd.AddCommand(newMonitorWithdraw(o))
	return cmd
}

func newMonitorWithdraw(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "withdraw NAME",
		Short: "Make a monitor's certificates useless",
		Long: `withdraw makes all certificates that "freshet monitor --name NAME" has made until
now useless, wherever copies of them are: within seconds nobody shows metrics to who
presents one. A new one can be made under the same name.`,
		Example: "  freshet monitor withdraw prometheus",
		Args:    wantArgs("NAME"),
		RunE: o.connected(func(cmd *cobra.Command, c *freshet.Client, args []string) error {
			if err := c.WithdrawMonitor(cmd.Context(), args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "The certificates of monitor %s are withdrawn.\n", args[0])
			return err
		}),
	}
	o.clientFlags(cmd)
	return cmd
}

// writeMonitor writes the three files, the key for its owner alone. The directory may be one where others
// write, too: each file is made under a name of its own and renamed, so that nothing is written through a link.
func writeMonitor(dir string, creds *pki.Credentials) error {
	cert, key, authority, err := creds.PEM()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	for _, f := range []struct {
		name  string
		write func(path string, b []byte) error
		data  []byte
	}{{"ca.pem", pki.WritePublic, authority}, {"monitor.pem", pki.WritePublic, cert}, {"monitor.key", pki.WriteFile, key}} {
		if err := f.write(filepath.Join(dir, f.name), f.data); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	return nil
}

// printScrape prints a configuration for Prometheus.
func printScrape(w io.Writer, dir, hub string, nodes []freshet.NodeView, expires time.Time) error {
	fmt.Fprintf(w, `# The certificate is good until %s; "freshet monitor" makes a new one.
scrape_configs:
  - job_name: freshet
    scheme: https
    tls_config:
      ca_file: %s
      cert_file: %s
      key_file: %s
      server_name: %s
    static_configs:
      - targets: [%q]
        labels: {node: control-plane}
`, expires.UTC().Format(time.DateOnly), filepath.Join(dir, "ca.pem"), filepath.Join(dir, "monitor.pem"), filepath.Join(dir, "monitor.key"), pki.MetricsName, hub)
	for _, n := range nodes {
		if n.Addr == hub || n.Addr == "" {
			continue // in the control plane's own process, or never up
		}
		if _, err := fmt.Fprintf(w, "      - targets: [%q]\n        labels: {node: %s}\n", n.Addr, n.Name); err != nil {
			return err
		}
	}
	return nil
}
