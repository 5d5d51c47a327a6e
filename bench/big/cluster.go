package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/unit"
)

// within is for all of one size: 4 GiB to 8 nodes on a slow disk.
const within = time.Hour

// build makes the binary that is to be measured, as it is for users.
func build(ctx context.Context, dir string) (string, error) {
	exe := filepath.Join(dir, "freshet")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", exe, "github.com/freshet/freshet/cmd/freshet")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build freshet: %w: %s", err, out)
	}
	return exe, nil
}

// processes are those of one run. They end with it.
type processes struct {
	dir, exe string
	env      []string
	all      []*exec.Cmd
}

// broadcast brings an object of the cell's size to fresh agents, and returns
// what it took. All files are below dir, and gone afterwards.
func broadcast(ctx context.Context, exe, dir string, c *bench.Cell) (_ map[string]float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	size, err := unit.ParseBytes(c.Params["size"])
	if err != nil {
		return nil, err
	}
	nodes, err := strconv.Atoi(c.Params["nodes"])
	if err != nil {
		return nil, err
	}
	p := &processes{dir: dir, exe: exe, env: append(os.Environ(),
		"FRESHET_STATE="+filepath.Join(dir, "state"), "FRESHET_ADMIN=", "AWS_PROFILE=", "AWS_SESSION_TOKEN=", "AWS_REGION=us-east-1",
		"AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull, "AWS_ACCESS_KEY_ID=big", "AWS_SECRET_ACCESS_KEY=big-secret")}
	defer func() { err = errors.Join(err, p.end(), os.RemoveAll(dir)) }()

	object := filepath.Join(dir, "s3", "b", "object")
	if err := os.MkdirAll(filepath.Dir(object), 0o755); err != nil {
		return nil, err
	}
	if err := random(ctx, object, size, c.Seed); err != nil {
		return nil, err
	}
	var store struct{ Endpoint string }
	if err := p.start(ctx, "store", &store, "s3", "--dir", filepath.Join(dir, "s3"), "--listen", "127.0.0.1:0", "--json"); err != nil {
		return nil, err
	}
	p.env = append(p.env, "AWS_ENDPOINT_URL="+store.Endpoint)
	var hub struct{ Addr, Admin string }
	if err := p.start(ctx, "hub", &hub, "up", "--no-agent", "--listen", "127.0.0.1:0", "--json"); err != nil {
		return nil, err
	}
	token := filepath.Join(dir, "token")
	text, err := p.ask(ctx, "token", "--admin", hub.Admin, "--uses", strconv.Itoa(nodes))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(token, text, 0o600); err != nil {
		return nil, err
	}
	var pids []int
	for i := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		data := filepath.Join(dir, name, "data")
		if err := os.MkdirAll(data, 0o755); err != nil {
			return nil, err
		}
		var agent struct{ PID int }
		if err := p.start(ctx, name, &agent, "agent", "--join", hub.Addr, "--token", "@"+token, "--name", name, "--listen", "127.0.0.1:0",
			"--state", filepath.Join(dir, name, "state"), "--root", data, "--json"); err != nil {
			return nil, err
		}
		pids = append(pids, agent.PID)
	}
	if _, err := p.ask(ctx, "nodes", "--admin", hub.Admin, "--up", strconv.Itoa(nodes), "--wait", "1m"); err != nil {
		return nil, err
	}

	var out []byte
	if err := c.Measure(func() (err error) {
		out, err = p.ask(ctx, "broadcast", "s3://b/object", filepath.Join(dir, "{node}", "data", "object"), "--admin", hub.Admin, "--algorithm", c.Algorithm, "--json")
		return err
	}); err != nil {
		return nil, err
	}
	var job struct {
		Runs []struct {
			MakespanS  float64 `json:"makespan_s"`
			StoreBytes float64 `json:"store_bytes"`
		}
	}
	if err := json.Unmarshal(out, &job); err != nil || len(job.Runs) != 1 {
		return nil, fmt.Errorf("what the broadcast said: %s (%w)", out, err)
	}
	var peaks []float64
	for _, pid := range pids {
		peak, err := peakMemory(pid)
		if err != nil {
			return nil, err
		}
		peaks = append(peaks, float64(peak)/float64(unit.MiB))
	}
	span := bench.SpanOf(peaks)
	return map[string]float64{
		"makespan_s": job.Runs[0].MakespanS, "store_multiple": job.Runs[0].StoreBytes / float64(size),
		"least_mib": span.Min, "median_mib": span.Median, "most_mib": span.Max,
	}, nil
}

// random makes a file of bytes that depend on seed alone.
func random(ctx context.Context, path string, size unit.Bytes, seed uint64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	from := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	for left := int64(size); left > 0 && err == nil; left -= int64(64 * unit.MiB) {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err = io.CopyN(f, from, min(left, int64(64*unit.MiB)))
	}
	return err
}

// start starts a process that goes on, and reads its first line of JSON into ready.
func (p *processes) start(ctx context.Context, name string, ready any, args ...string) error {
	log, err := os.Create(filepath.Join(p.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	out, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close() // they write one line more at most, at their end
	cmd := exec.Command(p.exe, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, theirs, log
	cmd.SysProcAttr = ofItsOwn()
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p.all = append(p.all, cmd)
	unwatch := context.AfterFunc(ctx, func() { out.SetReadDeadline(time.Now()) })
	defer unwatch()
	if err := out.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, ready)
	}
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s did not say that it is ready: %w: %s", name, errors.Join(err, ctx.Err()), strings.TrimSpace(string(said)))
	}
	return nil
}

// ask runs a command to its end, and returns what it printed.
func (p *processes) ask(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.exe, args...)
	cmd.Env, cmd.SysProcAttr = p.env, ofItsOwn()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // which cancels the job
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("freshet %s: %w", args[0], err)
	}
	return out, nil
}

// end stops what start started, the last first, and waits for it.
func (p *processes) end() (err error) {
	for _, cmd := range slices.Backward(p.all) {
		if e := cmd.Process.Kill(); e != nil && !errors.Is(e, os.ErrProcessDone) {
			err = errors.Join(err, e)
		}
		cmd.Wait() // that it was killed is no news
	}
	return err
}

// peakMemory is the most that a running process had in memory at any time.
func peakMemory(pid int) (unit.Bytes, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("peak memory: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("peak memory in %s: %w", path, err)
			}
			return unit.Bytes(kib) * unit.KiB, nil
		}
	}
	return 0, fmt.Errorf("peak memory: %s has no VmHWM; has the process ended?", path)
}
