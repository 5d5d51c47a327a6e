package lab

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/unit"
)

// ownerEnv makes this test's binary an owner of a lab, for TestSweep to kill.
const ownerEnv = "LAB_TEST_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(ownerEnv) == "" {
		os.Exit(m.Run())
	}
	l, err := Up(Star(hosts(2), Link{Delay: time.Millisecond, Rate: 10 * unit.Mbit}))
	if err == nil {
		// Its child's child does not die with it: its owner did not start that.
		err = l.Start("n1", exec.Command("sh", "-c", "sleep 1000 & sleep 1000"))
	}
	fmt.Println(l.Name(), err)
	time.Sleep(time.Hour)
}

// owner starts an owner of a lab, and returns what the lab's names begin with.
func owner(t *testing.T) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ownerEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if _, err := Sweep(); err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	name, ok := strings.CutSuffix(line, " <nil>\n")
	if err != nil || !ok {
		t.Fatalf("the owner said %q, error %v", line, err)
	}
	return cmd, name
}

func names(t *testing.T, lab string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(namedDir, lab+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestSweep kills the owner of one lab of two, and sees that the next lab
// removes that one, with the processes in it, and leaves the other alone.
func TestSweep(t *testing.T) {
	New(t, Star(hosts(1), Link{})) // skips where there are no labs
	dead, deadLab := owner(t)
	_, liveLab := owner(t)
	var inodes []uint64
	for _, path := range names(t, deadLab) {
		inodes = append(inodes, named(filepath.Base(path)))
	}
	if pids, err := processes(inodes); err != nil || len(inodes) != 3 || len(pids) < 2 {
		t.Fatalf("the lab has namespaces %v with processes %v, error %v", inodes, pids, err)
	}
	free, err := building() // or another test's lab might sweep between the two
	if err != nil {
		t.Fatal(err)
	}
	dead.Process.Kill()
	dead.Wait()
	pids, err := processes(inodes)
	free()
	if err != nil || len(pids) == 0 {
		t.Fatalf("nothing survived the owner (error %v), so there is nothing to see here", err)
	}

	New(t, Star(hosts(1), Link{}))
	if left := names(t, deadLab); len(left) > 0 {
		t.Errorf("of the dead owner's lab there is still %v", left)
	}
	if pids, err := processes(inodes); err != nil || len(pids) > 0 {
		t.Errorf("in the dead owner's lab there still run %v, error %v", pids, err)
	}
	if left := names(t, liveLab); len(left) != 3 {
		t.Errorf("of the live owner's lab there is %v, want 3 namespaces", left)
	}
}

// held counts what this process has open, and its goroutines.
func held(t *testing.T) (files, goroutines int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries), runtime.NumGoroutine()
}

func TestCloseLeavesNothing(t *testing.T) {
	s := Star(hosts(3), Link{Rate: 10 * unit.Mbit})
	s.Links[0].Delay = time.Millisecond
	build := func() *Lab {
		l := New(t, s)
		cmd := exec.Command("sleep", "1000")
		if err := l.Start("n2", cmd); err != nil {
			t.Fatal(err)
		}
		ln, err := l.Listen("n1", ":0")
		if err != nil {
			t.Fatal(err)
		}
		ln.Close()
		if err := l.Partition("n1"); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		return l
	}
	build() // what the runtime opens once is open now
	files, goroutines := held(t)
	l := build()
	if left := names(t, l.Name()); len(left) > 0 {
		t.Errorf("there is still %v", left)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		f, g := held(t) // a goroutine that is over may be counted a moment longer
		if f <= files && g <= goroutines {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d files and %d goroutines, before it was %d and %d", f, g, files, goroutines)
		}
	}
	if err := l.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if err := l.Cut("n0", "sw"); err == nil {
		t.Error("cut a link of a closed lab")
	}
}
