package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// unitFile is a systemd unit's settings, by name.
func unitFile(t *testing.T, path string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			settings[name] = value
		}
	}
	return settings
}

// TestUnitsStartWhatThereIs sees that the command lines of the units are ours:
// flags that exist, and times that fit each other.
func TestUnitsStartWhatThereIs(t *testing.T) {
	units, err := filepath.Glob("../../packaging/*.service")
	if err != nil || len(units) != 2 {
		t.Fatalf("units: %v, %v", units, err)
	}
	for _, path := range units {
		s := unitFile(t, path)
		args := strings.Fields(s["ExecStart"])
		if len(args) < 2 || args[0] != "/usr/bin/freshet" {
			t.Fatalf("%s: ExecStart=%s", path, s["ExecStart"])
		}
		if last := len(args) - 1; args[last] == "$FRESHET_OPTIONS" { // without braces: as many arguments as there are words, none if it is not set
			args = args[:last]
		} else {
			t.Errorf("%s: there is no place for other options: ExecStart=%s", path, s["ExecStart"])
		}
		cmd, rest, err := newRoot().Find(args[1:])
		if err != nil || !cmd.Runnable() || cmd.Name() != args[1] {
			t.Fatalf("%s: %q is no command: %v", path, args[1], err)
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		stop, err := time.ParseDuration(s["TimeoutStopSec"])
		if err != nil {
			t.Errorf("%s: TimeoutStopSec=%s", path, s["TimeoutStopSec"])
		}
		drain, err := cmd.Flags().GetDuration("drain")
		if err != nil || args[1] == "agent" && stop < drain+10*time.Second {
			t.Errorf("%s: it is killed %v after it was told to stop, and takes %v for running jobs alone (%v)", path, stop, drain, err)
		}
		state, err := cmd.Flags().GetString("state")
		if err != nil || !strings.HasPrefix(state, "/var/lib/"+s["StateDirectory"]+"/") {
			t.Errorf("%s: the state is in %s, which StateDirectory=%s does not make writable", path, state, s["StateDirectory"])
		}
		if slackens := s["TimerSlackNSec"] != ""; slackens != (args[1] == "agent") {
			t.Errorf("%s: TimerSlackNSec=%s; want one where pieces pass through, and none elsewhere", path, s["TimerSlackNSec"])
		}
		for name, want := range map[string]string{"Type": "notify", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "Restart": "on-failure"} {
			if s[name] != want {
				t.Errorf("%s: %s=%s, want %s", path, name, s[name], want)
			}
		}
	}
}

// TestUnitsVerify lets systemd look at them, where it is installed.
func TestUnitsVerify(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip("no systemd-analyze; scripts/setup test installs it")
	}
	dir := t.TempDir()
	exe, err := os.Executable() // something that exists, in place of what is not installed
	if err != nil {
		t.Fatal(err)
	}
	units, err := filepath.Glob("../../packaging/*.service")
	if err != nil || len(units) == 0 {
		t.Fatalf("units: %v, %v", units, err)
	}
	for _, path := range units {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), "/usr/bin/freshet", exe)
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		out, err := exec.CommandContext(ctx, analyze, "verify", "--man=no", filepath.Join(dir, filepath.Base(path))).CombinedOutput()
		cancel()
		if err != nil || strings.Contains(string(out), filepath.Base(path)) {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
}

// TestSetupWantsGo: a Go that is too old is refused in a line that says where to get another, and not by what it makes of the code. One that
// fetches the version that is wanted does so when what it needs for that is installed; for one that cannot, nothing is.
func TestSetupWantsGo(t *testing.T) {
	for _, tt := range []struct {
		version, env string // what "go version" and "go env GOVERSION" do, in the programs' own words
		want         string // what of them is passed on; empty: it is not refused
		installs     bool
	}{
		{"echo go version go1.19.8 linux/amd64", "echo go1.19.8", "go1.19.8", false},
		{"echo go version go1.22.1 linux/amd64", "echo 'go: go.mod requires go >= 1.26.0 (running go 1.22.1; GOTOOLCHAIN=local)' >&2; exit 1", "running go 1.22.1", true},
		{"echo go version go1.22.1 linux/amd64", "test -e installed || { echo x509: certificate signed by unknown authority >&2; exit 1; }; echo go1.99.1", "", true},
		{"echo go version go1.22.1 linux/amd64", "echo go1.22.1", "(go1.22.1)", true},
		{"echo go version go1.99.1 linux/amd64", "echo go1.99.1", "", true},
		{"echo go version devel go1.99-0123abcd linux/amd64", "echo 'devel go1.99-0123abcd'", "", true},
		{"echo go version go2.0 linux/amd64", "echo go2.0", "", true},
	} {
		dir := t.TempDir()
		for name, does := range map[string]string{
			"go":      "case $1 in version) " + tt.version + ";; env) " + tt.env + ";; esac",
			"cc":      "exit 1", // something that is missing
			"id":      "echo 0",
			"apt-get": "touch installed",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\ncd '"+dir+"'\n"+does+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, "../../scripts/setup", "test")
		cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		cancel()
		if refused := tt.want != ""; refused != (err != nil) || !strings.Contains(string(out), tt.want) || refused != strings.Contains(string(out), "https://go.dev/dl/") {
			t.Errorf("%s: got %v, %s", tt.env, err, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "installed")); (err == nil) != tt.installs {
			t.Errorf("%s: something was installed: %v, want %v", tt.version, err == nil, tt.installs)
		}
	}
}

// TestTellsSystemd sees that a node says when it is ready, and when it stops.
func TestTellsSystemd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ln.SetReadDeadline(time.Now().Add(patience))
	t.Setenv("NOTIFY_SOCKET", socket)
	said := func(want string) {
		t.Helper()
		b := make([]byte, 1024)
		n, err := ln.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Fatalf("got %q, %v, want %q", b[:n], err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		root := newRoot()
		root.SetOut(testWriter{t})
		root.SetArgs([]string{"up", "--no-agent", "--listen", "127.0.0.1:0", "--state", filepath.Join(filepath.Dir(socket), "state"), "--log-level", "error"})
		if err := root.ExecuteContext(ctx); err != nil {
			t.Errorf("up: %v", err)
		}
	})
	said("READY=1")
	cancel()
	said("STOPPING=1")
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) { w.t.Log(string(b)); return len(b), nil }
