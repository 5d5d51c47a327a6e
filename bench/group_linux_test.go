package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestGroup: what a grandchild used that nobody waited for counts, and one that
// fled from its parent ends with the group.
func TestGroup(t *testing.T) {
	g, err := NewGroup(fmt.Sprintf("freshet-bench-test-%d", os.Getpid()))
	if err != nil {
		t.Skip("no control groups that we may make here: ", err)
	}
	script := `(i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done) & sleep 1000 & setsid sleep 1000 & exit 0`
	cmd := exec.Command("sh", "-c", script)
	g.Adopt(cmd)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		used, err := g.CPU()
		if err != nil || ctx.Err() != nil {
			t.Fatalf("a loop of a grandchild used %v, %v", used, err)
		}
		if used >= 10*time.Millisecond {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := g.Kill(ctx); err != nil {
		t.Error(err)
	}
	if err := g.Remove(); err != nil {
		t.Errorf("somebody is still in it: %v", err)
	}
}

// TestSweepGroups: a group that a killed run left is removed, and who is still in it ends; what a living one has is not.
func TestSweepGroups(t *testing.T) {
	const noProcess = 4194305 // more than the kernel gives out
	name := fmt.Sprintf("freshet-sweep%d", os.Getpid())
	left, err := NewGroup(fmt.Sprintf("%s-%d-7-store", name, noProcess))
	if err != nil {
		t.Skip("no control groups that we may make here: ", err)
	}
	defer left.dir.Close()
	kept, err := NewGroup(fmt.Sprintf("%s-%d-7", name, os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	left.Adopt(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := SweepGroups(ctx, name); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("a process of a killed run went on")
	}
	if _, err := os.Stat(left.path); !os.IsNotExist(err) {
		t.Errorf("the group of a killed run is still there: %v", err)
	}
	if err := kept.Remove(); err != nil {
		t.Errorf("the group of a living run: %v", err)
	}
}
