package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet"
)

func newAdmin(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "admin",
		GroupID: "cluster",
		Short:   "Withdraw the admin's credential, and make a new one",
		Long: `admin is about the credential that all commands need which ask the control plane:
admin.pem in its state directory, and the copies of it.`,
		Args: wantArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAdminWithdraw(o))
	return cmd
}

func newAdminWithdraw(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "withdraw",
		Short: "Make all copies of the admin's credential useless",
		Long: `withdraw makes the admin's credential useless, wherever copies of it are, and those
of it that were renewed: their connections are closed, and none is let in again. A
new one is written where the control plane runs; copy that to where it is needed.
Jobs go on. See with "freshet token list" and "freshet nodes" what was done with it.`,
		Example: "  freshet admin withdraw",
		Args:    wantArgs(),
		RunE: o.connected(func(cmd *cobra.Command, c *freshet.Client, _ []string) error {
			path, err := c.WithdrawAdmin(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The admin's credential is withdrawn. The new one is, where the control plane runs, in\n  %s\n", path)
			return err
		}),
	}
	o.clientFlags(cmd)
	return cmd
}
