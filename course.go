package freshet

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/swarm"
)

// course gathers how this node's part of a job goes. It belongs to the goroutine
// that runs the part.
type course struct {
	accepted time.Time
	began    time.Time
	line     *account.Line
	written  atomic.Int64 // nanoseconds in writes to the disk, all writers added up
	load     load
	placed   bool // the object is in its place
	account.Course
}

func newCourse(job control.Job, carries account.Capacities) *course {
	c := &course{accepted: job.Accepted, began: time.Now(), line: account.NewLine(account.Steps(len(job.Members)))}
	c.Carries = carries
	c.load.begin(c.began)
	return c
}

// note takes what the swarm says.
func (c *course) note(now time.Time, s swarm.Progress) {
	c.line.Note(now.Sub(c.accepted).Seconds(), s.StoreBytes, s.PeerBytes, s.SentBytes)
	if c.placed {
		return
	}
	end := now
	if s.Done {
		c.placed, end = true, s.DoneAt
	}
	c.load.sample(now, s.Done)
	c.Seconds, c.BusyS, c.WriteS = end.Sub(c.began).Seconds(), c.load.busy.Seconds(), time.Duration(c.written.Load()).Seconds()
	c.Spent, c.DoStep, c.Do = s.Spent, s.DoStep, s.Do
}

// end is all of it.
func (c *course) end() account.Course {
	line := c.line.Course()
	out := c.Course
	out.Step, out.Store, out.Peers, out.Sent = line.Step, line.Store, line.Peers, line.Sent
	out.CPUS = (processorTime() - c.load.first).Seconds()
	return out
}

// timed is a file the writes to which are timed.
type timed struct {
	swarm.File
	spent *atomic.Int64
}

func (t timed) WriteAt(b []byte, off int64) (int, error) {
	began := time.Now()
	n, err := t.File.WriteAt(b, off)
	t.spent.Add(int64(time.Since(began)))
	return n, err
}

// SyscallConn is that of the file, if it has one.
func (t timed) SyscallConn() (syscall.RawConn, error) {
	if f, ok := t.File.(syscall.Conn); ok {
		return f.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// load watches how busy the processors are: the machine's, and those that this
// process may use, which in a container are fewer.
type load struct {
	first       time.Duration // processor time of this process at the beginning
	at          time.Time
	process     time.Duration
	idle, total float64 // of the machine since it was started, in ticks; zero: unknown
	busy        time.Duration
}

func (l *load) begin(now time.Time) {
	l.at, l.process = now, processorTime()
	l.first = l.process
	l.idle, l.total = machineTime("/proc/stat")
}

// sample looks once a second, and at the end.
func (l *load) sample(now time.Time, last bool) {
	span := now.Sub(l.at)
	if span < time.Second && (!last || span < 200*time.Millisecond) {
		return
	}
	process := processorTime()
	idle, total := machineTime("/proc/stat")
	share := float64(process-l.process) / (float64(span) * float64(runtime.GOMAXPROCS(0)))
	if total > l.total {
		share = max(share, 1-(idle-l.idle)/(total-l.total))
	}
	if share >= account.BusyAbove {
		l.busy += span
	}
	l.at, l.process, l.idle, l.total = now, process, idle, total
}

// processorTime is what this process has taken, in user and system mode.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// machineTime reads how long all processors were idle, and all their time, from
// Linux's account; zero where there is none.
func machineTime(path string) (idle, total float64) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, 0
	}
	first, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(first)
	if len(fields) < 5 || fields[0] != "cpu" {
		return 0, 0
	}
	for i, f := range fields[1:min(len(fields), 9)] { // the two after these are in the first two
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return 0, 0
		}
		total += v
		if i == 3 || i == 4 { // idle, and idle while the disk is waited for
			idle += v
		}
	}
	return idle, total
}
