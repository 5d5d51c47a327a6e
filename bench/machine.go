package bench

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/unit"
)

// Machine is what a run was made on. What a system does not tell is empty.
type Machine struct {
	Cores  int        `json:"cores"`
	Memory unit.Bytes `json:"memory"`
	CPU    string     `json:"cpu"`
	Kernel string     `json:"kernel"`
}

// ThisMachine describes the one that this process runs on.
func ThisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), CPU: field("/proc/cpuinfo", "model name")}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	m.Kernel = strings.TrimSpace(string(kernel))
	kib, _, _ := strings.Cut(field("/proc/meminfo", "MemTotal"), " ")
	if n, err := strconv.ParseInt(kib, 10, 64); err == nil {
		m.Memory = unit.Bytes(n) * unit.KiB
	}
	return m
}

// field is the first value of a name in a file of lines "name: value".
func field(file, name string) string {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// ticks are times of all processors together, in the kernel's unit.
type ticks struct{ all, idle, stolen float64 }

// parseTicks reads the first line of /proc/stat: "cpu", then user, nice, system,
// idle, iowait, irq, softirq, steal; what follows is in user and nice already. Who is nice gives way to what is measured: his time is idle time.
func parseTicks(stat string) (t ticks) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) == 0 || fields[0] != "cpu" {
		return ticks{}
	}
	for i, f := range fields[1:min(len(fields), 9)] {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return ticks{}
		}
		t.all += v
		switch i {
		case 1, 3, 4:
			t.idle += v
		case 7:
			t.stolen = v
		}
	}
	return t
}

func (t ticks) share(part float64) float64 {
	if t.all <= 0 {
		return 0
	}
	return part / t.all
}

func (t ticks) busy() float64 { return t.share(t.all - t.idle) }

// stretch is a time, and what the processors did in it.
type stretch struct {
	began time.Time
	from  ticks
	wall  time.Duration
	used  ticks
}

func begin() stretch { return stretch{began: time.Now(), from: now()} }

func (s *stretch) end() {
	to := now()
	s.wall = time.Since(s.began)
	s.used = ticks{to.all - s.from.all, to.idle - s.from.idle, to.stolen - s.from.stolen}
}

// Busy runs f, and says which share of all processors' time was in use meanwhile.
func Busy(f func() error) (share float64, err error) {
	s := begin()
	err = f()
	s.end()
	return s.used.busy(), err
}

func now() ticks {
	stat, _ := os.ReadFile("/proc/stat") // elsewhere than on Linux there is none, and nothing is known
	return parseTicks(string(stat))
}
