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
		t.Skip(err)
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
