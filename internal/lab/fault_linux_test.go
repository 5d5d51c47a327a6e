package lab

import (
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/unit"
)

// groups says which hosts reach each other, as the sets of those that do:
// "a0 a1 | b0". It fails the test if a host reaches another that does not
// reach it.
func groups(t *testing.T, l *Lab, ports map[string]int) string {
	t.Helper()
	names := l.Spec().Hosts
	reached := make([][]bool, len(names))
	var asking sync.WaitGroup
	for i, from := range names {
		reached[i] = make([]bool, len(names))
		for j, to := range names {
			asking.Go(func() { reached[i][j] = i == j || reaches(t, l, from, to, ports[to]) })
		}
	}
	asking.Wait()
	var sets []string
	in := make([]bool, len(names))
	for i, a := range names {
		if in[i] {
			continue
		}
		var set []string
		for j, b := range names {
			if reached[i][j] != reached[j][i] {
				t.Errorf("%s reaches %s: %v, but back: %v", a, b, reached[i][j], reached[j][i])
			}
			if reached[i][j] {
				in[j] = true
				set = append(set, b)
			}
		}
		sets = append(sets, strings.Join(set, " "))
	}
	return strings.Join(sets, " | ")
}

// reaches asks again and again, for long enough that an answer would have come
// on a busy machine.
func reaches(t *testing.T, l *Lab, from, to string, port int) bool {
	var c net.Conn
	err := l.Do(from, func() (err error) {
		c, err = net.Dial("udp4", net.JoinHostPort(l.Addr(to).String(), fmt.Sprint(port)))
		return err
	})
	if err != nil {
		t.Error(err)
		return false
	}
	defer c.Close()
	b := make([]byte, 64)
	for range 5 {
		c.Write(b)
		c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := c.Read(b); err == nil {
			return true
		}
	}
	return false
}

func TestCutsAndPartitions(t *testing.T) {
	// Two sites with two hosts each.
	l := New(t, Spec{
		Hosts:    []string{"a0", "a1", "b0", "b1"},
		Switches: []string{"a", "b"},
		Links: []Link{
			{A: "a0", B: "a"}, {A: "a", B: "a1", Delay: time.Nanosecond},
			{A: "b0", B: "b", Rate: 100 * unit.Mbit}, {A: "b1", B: "b"},
			{A: "a", B: "b", Delay: time.Millisecond},
		},
	})
	ports := make(map[string]int)
	for _, h := range l.Spec().Hosts {
		ports[h] = echo(t, l, h)
	}
	const whole = "a0 a1 b0 b1"
	for _, c := range []struct {
		what string
		do   func() error
		want string
	}{
		{"as built", func() error { return nil }, whole},
		{"cut a0", func() error { return l.Cut("a", "a0") }, "a0 | a1 b0 b1"},
		{"cut a1, with a wire", func() error { return l.Cut("a", "a1") }, "a0 | a1 | b0 b1"},
		{"mend a1", func() error { return l.Mend("a1", "a") }, "a0 | a1 b0 b1"},
		{"heal, which mends nothing", l.Heal, "a0 | a1 b0 b1"},
		{"mend a0", func() error { return l.Mend("a0", "a") }, whole},
		{"cut the trunk", func() error { return l.Cut("a", "b") }, "a0 a1 | b0 b1"},
		{"mend the trunk", func() error { return l.Mend("a", "b") }, whole},
		{"partition a site", func() error { return l.Partition("a", "a0", "a1") }, "a0 a1 | b0 b1"},
		{"heal", l.Heal, whole},
		{"partition two hosts of a switch", func() error { return l.Partition("a1", "a0") }, "a0 a1 | b0 b1"},
		{"and one of them from the other", func() error { return l.Partition("a1") }, "a0 | a1 | b0 b1"},
		{"heal both", l.Heal, whole},
		{"partition a switch from its hosts", func() error { return l.Partition("b", "a", "b1", "a1") }, "a0 | a1 b1 | b0"},
		{"cut in a partition", func() error { return l.Cut("b1", "b") }, "a0 | a1 | b0 | b1"},
		{"heal it", l.Heal, "a0 a1 b0 | b1"},
		{"mend it", func() error { return l.Mend("b1", "b") }, whole},
	} {
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if got := groups(t, l, ports); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	for _, err := range []error{l.Cut("a0", "b0"), l.Mend("a0", "x"), l.Partition("a0", "x"), l.Kill("x"), l.SetRate("a0", "a", 1, 0), l.SetLoss("a", "b", 2)} {
		if err == nil {
			t.Error("something impossible was done without an error")
		}
	}
}

// TestRelayJoinsSegments has two sites that reach each other only through a
// host with a link to each.
func TestRelayJoinsSegments(t *testing.T) {
	l := New(t, Spec{
		Hosts:    []string{"a0", "relay", "b0"},
		Switches: []string{"a", "b"},
		Links:    []Link{{A: "a0", B: "a"}, {A: "relay", B: "a"}, {A: "relay", B: "b"}, {A: "b0", B: "b"}},
	})
	addrs := l.Addrs("relay")
	if len(addrs) != 2 || addrs[0] == addrs[1] {
		t.Fatalf("the relay has the addresses %v, want one in each segment", addrs)
	}
	port := echo(t, l, "relay")
	for h, a := range map[string]string{"a0": addrs[0].String(), "b0": addrs[1].String()} {
		err := l.Do(h, func() error {
			c, err := net.Dial("udp4", net.JoinHostPort(a, fmt.Sprint(port)))
			if err != nil {
				return err
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(5 * time.Second))
			c.Write([]byte("?"))
			_, err = c.Read(make([]byte, 1))
			return err
		})
		if err != nil {
			t.Errorf("%s to the relay's %s: %v", h, a, err)
		}
	}
	err := l.Do("a0", func() error {
		_, err := net.Dial("udp4", net.JoinHostPort(l.Addr("b0").String(), "1"))
		return err
	})
	if err == nil {
		t.Error("a0 has a route to b0, in another segment")
	}
}

// states are the letters of all processes in a host, in order.
func states(t *testing.T, l *Lab, host string) string {
	t.Helper()
	pids, err := processes([]uint64{l.hosts[host].inode()})
	if err != nil {
		t.Fatal(err)
	}
	var s []byte
	for _, pid := range pids {
		if c, alive := state(pid); alive {
			s = append(s, c)
		}
	}
	slices.Sort(s)
	return string(s)
}

// A host stops though a process in it waits in the kernel for a child that is stopped.
func TestHostsStopInTheMiddleOfFork(t *testing.T) {
	l := New(t, Star(hosts(1), Link{}))
	const vfork = unix.CLONE_VFORK | int(unix.SIGCHLD)
	cmd := exec.Command("perl", "-e", fmt.Sprintf("$| = 1; print 1; syscall(%d, %d, 0, 0, 0, 0); sleep 1000", unix.SYS_CLONE, vfork))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start("n0", cmd); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); states(t, l, "n0") != "DS"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("processes are %q, want one that waits for its child, DS", states(t, l, "n0"))
		}
	}
	if err := l.Stop("n0"); err != nil {
		t.Fatal(err)
	}
	if got := states(t, l, "n0"); got != "DT" {
		t.Errorf("processes of a stopped host are %q, want DT", got)
	}
	if err := l.Kill("n0"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the killed process ended with %v", err)
	}
}

func TestHostsStopContinueAndDie(t *testing.T) {
	l := New(t, Star(hosts(2), Link{}))
	var cmds []*exec.Cmd
	for _, h := range hosts(2) {
		cmd := exec.Command("sh", "-c", "sleep 1000 & sleep 1000 & echo; wait") // three processes
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Start(h, cmd); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	if err := l.Stop("n0"); err != nil {
		t.Fatal(err)
	}
	if got := states(t, l, "n0"); strings.Trim(got, "T") != "" || len(got) < 2 {
		t.Errorf("processes of a stopped host are %q, want all T", got)
	}
	if got := states(t, l, "n1"); strings.Contains(got, "T") {
		t.Errorf("processes of the other host are %q", got)
	}
	if err := l.Continue("n0"); err != nil {
		t.Fatal(err)
	}
	if got := states(t, l, "n0"); strings.Contains(got, "T") || len(got) < 2 {
		t.Errorf("processes of a continued host are %q", got)
	}
	if err := l.Kill("n0"); err != nil {
		t.Fatal(err)
	}
	if got := states(t, l, "n0"); got != "" {
		t.Errorf("processes of a killed host are %q, want none", got)
	}
	if err := cmds[0].Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the killed process ended with %v", err)
	}
	if got := states(t, l, "n1"); len(got) < 2 {
		t.Errorf("processes of the other host are %q, want them alive", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmds[1].Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("after Close the process ended with %v", err)
	}
	if err := l.Start("n1", exec.Command("true")); err == nil {
		t.Error("started a process in a closed lab")
	}
}
