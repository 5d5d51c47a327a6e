package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/pki"
)

// Where a machine keeps what it must remember. The control plane and each agent
// have a directory of their own, so that all can run on one machine:
//
//	BASE/up/            of "freshet up"; in it hub/admin.pem, the admin's credential
//	BASE/agent/NAME/    of "freshet agent", by the node's name
//
// BASE is $FRESHET_STATE, else /var/lib/freshet for root and
// $XDG_STATE_HOME/freshet, by default ~/.local/state/freshet, for others.
func stateBase() (string, error) {
	if dir := os.Getenv("FRESHET_STATE"); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Geteuid() == 0 {
		return "/var/lib/freshet", nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "freshet"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no place for the state (%w): give --state, or set FRESHET_STATE", err)
	}
	return filepath.Join(home, ".local", "state", "freshet"), nil
}

// stateDir is the directory that flag names or, if it is empty, the default for what.
func stateDir(flag string, what ...string) (string, error) {
	if flag != "" {
		return filepath.Abs(flag)
	}
	base, err := stateBase()
	if err != nil {
		return "", err
	}
	return filepath.Join(append([]string{base}, what...)...), nil
}

// nodeName is the name that flag gives or, if it is empty, the first label of
// the host's name.
func nodeName(flag string) (string, error) {
	if flag != "" {
		if err := pki.CheckName(flag); err != nil {
			return "", usage("--name: %w", err)
		}
		return flag, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("no name for this node (%w): give --name", err)
	}
	name, _, _ := strings.Cut(strings.ToLower(host), ".")
	if err := pki.CheckName(name); err != nil {
		return "", fmt.Errorf("this host is called %q, which is no name for a node (%w): give --name", host, err)
	}
	return name, nil
}

// readToken is the token that flag holds: itself, "-" for standard input, or @FILE.
func readToken(flag string, in io.Reader) (string, error) {
	from := "standard input"
	switch {
	case flag == "-":
	case strings.HasPrefix(flag, "@"):
		from = flag[1:]
		f, err := os.Open(from)
		if err != nil {
			return "", fmt.Errorf("--token: %w", err)
		}
		defer f.Close()
		in = f
	default:
		return flag, nil
	}
	b, err := io.ReadAll(io.LimitReader(in, 4096))
	if err != nil {
		return "", fmt.Errorf("--token from %s: %w", from, err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("--token: %s is empty", from)
	}
	return token, nil
}

// adminFile is where the admin's credential should be.
func (o *options) adminFile() (string, error) {
	if o.admin != "" {
		return o.admin, nil
	}
	if file := os.Getenv("FRESHET_ADMIN"); file != "" {
		return file, nil
	}
	dir, err := stateDir("", "up")
	return filepath.Join(dir, "hub", control.AdminFile), err
}

// connectWithin is how long a control plane that can be dialled may take to let us in.
const connectWithin = 15 * time.Second

// connect connects to the control plane, waiting for it as long as --wait says.
func (o *options) connect(ctx context.Context, hub func(error)) (*freshet.Client, error) {
	path, err := o.adminFile()
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(o.wait)
	for {
		attempt, cancel := context.WithTimeout(ctx, max(connectWithin, time.Until(deadline)))
		c, err := freshet.Connect(attempt, path, freshet.ClientOptions{Hub: hub})
		cancel()
		switch {
		case err == nil:
			return c, nil
		case ctx.Err() != nil:
			return nil, errInterrupted
		case !time.Now().Before(deadline):
			return nil, explainConnect(path, err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, errInterrupted
		}
	}
}

// connected is what a command runs that has nothing to do before it is connected with the control plane.
func (o *options) connected(run func(cmd *cobra.Command, c *freshet.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := o.connect(cmd.Context(), nil)
		if err != nil {
			return err
		}
		defer c.Close()
		return run(cmd, c, args)
	}
}

func explainConnect(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("no admin credential at %s: run this where \"freshet up\" runs and as the same user, or copy its admin.pem here and name it with --admin or FRESHET_ADMIN", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: it belongs to the user who runs \"freshet up\"", err)
	}
	return fmt.Errorf("%w (credential %s)", err, path)
}
