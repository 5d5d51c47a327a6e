package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReadmeClusterByHand types what the section of that name in the README
// says, block by block, in the repository's root. Only the ports are others, since
// somebody may have just such a cluster on this machine. The shell in which that begins
// has a background job, and keeps it, its directory and its variables.
func TestReadmeClusterByHand(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellBlocks(section(string(readme), "## A cluster by hand"))
	const atLeast = 6
	if len(blocks) < atLeast {
		t.Fatalf("the section has %d blocks of commands, want %d or more: it was renamed, or its blocks do not begin with ```sh", len(blocks), atLeast)
	}
	script := "here=$PWD; sleep 1000 & mine=$!\n"
	for i, b := range blocks {
		script += fmt.Sprintf("echo '--- block %d'\n%s", i+1, b)
	}
	script += "echo '--- in the first shell again'\ntest \"$PWD\" = \"$here\"\ntest -z \"$AWS_ACCESS_KEY_ID$AWS_ENDPOINT_URL$FRESHET_STATE\"\nkill $mine\n"
	for _, port := range []string{":9000", ":7433"} {
		if !strings.Contains(script, "127.0.0.1"+port) {
			t.Fatalf("the commands do not use port %s", port)
		}
		script = strings.ReplaceAll(script, "127.0.0.1"+port, freeAddress(t))
	}

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tmp := t.TempDir()
	cmd := exec.CommandContext(ctx, "bash")
	cmd.Stdin = strings.NewReader(script) // from a pipe, of which a shell takes a line at a time: the next are for the one that the line begins
	cmd.Dir = root
	for _, kv := range os.Environ() {
		if k, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(k, "AWS_") && !strings.HasPrefix(k, "FRESHET_") && !strings.HasPrefix(k, "MAKE") && k != "MFLAGS" && k != "SHELLOPTS" {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp, "SHELLOPTS=errexit") // of each of the shells
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what a failure has left running
	}
	if err != nil {
		logs, _ := filepath.Glob(filepath.Join(tmp, "*", "*.log"))
		for _, name := range logs {
			b, _ := os.ReadFile(name)
			t.Logf("%s:\n%s", filepath.Base(name), b)
		}
		t.Fatalf("%v\n%s", err, out.String())
	}
	text := out.String()
	for _, want := range []string{
		"Done: 3 nodes have", "from the store  95.37 MiB (1.00 × the object)", "Report with pictures: report.html",
		"Nothing to do: this version is present on all 3 nodes",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q in\n%s", want, text)
		}
	}
	sums := map[string]bool{}
	for line := range strings.Lines(text) {
		if sum, file, ok := strings.Cut(strings.TrimSpace(line), "  "); ok && strings.HasSuffix(file, "model.bin") && len(sum) == 64 {
			sums[sum] = true
		}
	}
	if len(sums) != 1 {
		t.Errorf("sha256sum printed %d different sums, want 1, in\n%s", len(sums), text)
	}
}

// TestReadmeOnSeveralMachines: the commands that the section of that name has are such as there are, with these flags.
func TestReadmeOnSeveralMachines(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for line := range strings.Lines(section(string(readme), "## On several machines")) {
		line, _, _ := strings.Cut(line, " >") // to a file
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "freshet" {
			continue
		}
		commands++
		cmd, rest, err := newRoot().Find(words[1:])
		if err != nil || !cmd.HasParent() {
			t.Errorf("%s: no such command: %v", line, err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", line, err)
		} else if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if commands < 5 {
		t.Errorf("the section has %d commands, want 5 or more: was it renamed?", commands)
	}
}

// TestReadmeOptions: of each option the table of that section names all commands that have it, and no others.
// What is there to try things out does not count, and neither do lines that name no command.
func TestReadmeOptions(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted, flag := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile("^--([a-z0-9-]+)")
	options := 0
	for line := range strings.Lines(section(string(readme), "## Options that matter")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		var named []string
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			named = append(named, m[1])
		}
		slices.Sort(named)
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			f := flag.FindStringSubmatch(m[1])
			if f == nil || len(named) == 0 {
				continue
			}
			options++
			var have []string
			for _, c := range newRoot().Commands() {
				if c.GroupID != "try" && c.Flags().Lookup(f[1]) != nil {
					have = append(have, c.Name())
				}
			}
			slices.Sort(have)
			if !slices.Equal(have, named) {
				t.Errorf("--%s is said to be of %v, and is of %v", f[1], named, have)
			}
		}
	}
	if options < 15 {
		t.Errorf("the section has %d options with their commands, want 15 or more: was it renamed?", options)
	}
}

// section is the text from a heading to the next of its level.
func section(text, heading string) string {
	_, rest, _ := strings.Cut(text, "\n"+heading+"\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// shellBlocks are the fenced blocks marked sh.
func shellBlocks(text string) (blocks []string) {
	for {
		_, rest, ok := strings.Cut(text, "\n```sh\n")
		if !ok {
			return blocks
		}
		block, after, _ := strings.Cut(rest, "\n```")
		blocks = append(blocks, block+"\n")
		text = after
	}
}

// freeAddress is one on the loopback interface that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// TestReadmeWhereToReadOn types the commands that the section of that name has between backquotes, one after the
// other, in a directory that has the repository's docs and nothing else.
func TestReadmeWhereToReadOn(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	exe, dir := built(t), t.TempDir()
	if err := os.Symlink(docs, filepath.Join(dir, "docs")); err != nil {
		t.Fatal(err)
	}
	prints := map[string]string{ // by command, the first words of which suffice
		"freshet sim":           "\nmakespan ",
		"freshet topo generate": "",
		"freshet topo show":     "Picture: net.svg",
		"freshet plan":          "\nindex ",
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for i, part := range strings.Split(section(string(readme), "## Where to read on"), "`") {
		if i%2 == 0 || !strings.HasPrefix(part, "freshet ") {
			continue
		}
		cmd := exec.CommandContext(ctx, exe, strings.Fields(part)[1:]...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", part, err, out)
		}
		for words, want := range prints {
			if strings.HasPrefix(part, words) {
				if !strings.Contains(string(out), want) {
					t.Errorf("%s: got no %q in\n%s", part, want, out)
				}
				delete(prints, words)
			}
		}
	}
	if len(prints) > 0 {
		t.Errorf("the section does not have %v: it was renamed, or its commands are not between backquotes", prints)
	}
}
