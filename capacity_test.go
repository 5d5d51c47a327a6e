package freshet

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/swarm"
	"github.com/freshet/freshet/unit"
)

// sysfs makes a directory as Linux has one for network interfaces.
func sysfs(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path, text, _ := strings.Cut(f, "=")
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSpeedOfNetworkCards(t *testing.T) {
	dir := sysfs(t, "eth0/speed=1000", "eth0/device/x", "veth0/speed=10000", "down0/speed=-1", "down0/device/x", "odd0/speed=4294967295", "odd0/device/x",
		"bond0/speed=2000", "bond0/lower_eth0/x", "br0/speed=10000", "br0/lower_veth0/x", "loop0/speed=5", "loop0/lower_loop0/x", "mute0/device/x")
	for name, want := range map[string]float64{"eth0": 125e6, "veth0": 0, "down0": 0, "odd0": 0, "bond0": 250e6, "br0": 0, "loop0": 0, "mute0": 0, "none0": 0} {
		got := speedOf(dir, name, 1500)
		if math.Abs(float64(got.Rate)-want*1448/1514) > 1 || want > 0 && got.From != account.NIC {
			t.Errorf("%s: got %v, want the payload of %v", name, got, unit.Bandwidth(want))
		}
	}
	if got := speedOf(dir, "eth0", 9000); math.Abs(float64(got.Rate)-125e6*8948/9014) > 1 {
		t.Errorf("with jumbo frames: got %v", got)
	}
	if got := cardRate("/sys/class/net", "127.0.0.1:1"); got.Known() {
		t.Errorf("of the loopback interface: got %v", got)
	}
}

func TestDeclaredCapacities(t *testing.T) {
	const gbit = 125e6 * 1448 / 1514
	for _, c := range []struct {
		config NodeConfig
		want   account.Capacities
	}{
		{NodeConfig{}, account.Capacities{}},
		{NodeConfig{Declared: map[string]unit.Bandwidth{"in": unit.Gbit, "store": 5e6}}, account.Capacities{In: account.Capacity{Rate: gbit, From: account.Declared}, Store: account.Capacity{Rate: 5e6, From: account.Declared}}},
		{NodeConfig{RateIn: 1e6, RateOut: 1e12, Declared: map[string]unit.Bandwidth{"in": unit.Gbit, "out": unit.Gbit}},
			account.Capacities{In: account.Capacity{Rate: 1e6, From: account.Declared}, Out: account.Capacity{Rate: gbit, From: account.Declared}}},
	} {
		got := c.config.capacities("127.0.0.1:7433")
		for i, pair := range [][2]account.Capacity{{got.In, c.want.In}, {got.Out, c.want.Out}, {got.Store, c.want.Store}} {
			if math.Abs(float64(pair[0].Rate-pair[1].Rate)) > 1e-3 || pair[0].From != pair[1].From {
				t.Errorf("%+v: capacity %d is %v, want %v", c.config.Declared, i, pair[0], pair[1])
			}
		}
	}
	for what, rate := range map[string]unit.Bandwidth{"moon": 1, "in": 0} {
		if _, err := Start(t.Context(), NodeConfig{Agent: true, Roots: []string{t.TempDir()}, State: t.TempDir(), Declared: map[string]unit.Bandwidth{what: rate}}); err == nil {
			t.Errorf("declared %s=%v: got no error", what, rate)
		}
	}
}

// What is not declared comes from other jobs, and what was seen of one store says nothing of another.
func TestCapacitiesSeenInOtherJobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rates.json")
	w := &worker{history: openHistory(path), probes: openProbes(path + "-"), network: account.Capacities{Out: account.Capacity{Rate: 7, From: account.NIC}}}
	job := control.Job{Spec: control.Spec{Source: "s3://b/k?endpoint=http://h:1&region=x"}}
	if got := w.carries(job, "n"); got != (account.Capacities{Out: w.network.Out}) {
		t.Errorf("with no other jobs: got %+v", got)
	}
	for i, p := range []account.Peak{{In: 100, Out: 5, Store: 30}, {}, {In: 90, Out: 9, Store: 40}, {In: 1, Out: 1, Store: 99}} {
		source := []string{"s3://b/x?endpoint=http://h:1", "s3://b/x", "s3://b/y?endpoint=http://h:1", "https://b/y"}[i]
		if err := w.history.add(pastJob{fmt.Sprint(i), storeOf(source), p}); err != nil {
			t.Fatal(err)
		}
	}
	want := account.Capacities{In: account.Capacity{Rate: 100, From: account.Seen}, Out: w.network.Out, Store: account.Capacity{Rate: 40, From: account.Seen}}
	w.history = openHistory(path)
	if got := w.carries(job, "n"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	w.network.In = account.Capacity{Rate: 20, From: account.Declared}
	if got := w.carries(job, "n"); got.In != w.network.In || got.Store != w.network.In {
		t.Errorf("with a slow line: got %+v", got)
	}
	for i := range keepPast {
		if err := w.history.add(pastJob{fmt.Sprint(i), "other", account.Peak{In: 50}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := openHistory(path).most(storeOf(job.Spec.Source)); got != (account.Peak{In: 50}) {
		t.Errorf("after many other jobs: got %+v", got)
	}
	if err := os.WriteFile(path, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := openHistory(path).most("other"); got != (account.Peak{}) {
		t.Errorf("of a broken file: got %+v", got)
	}
}

// What is read from a file that is here already comes over no link: the link's rate bounds nothing, and what was read says nothing of it.
func TestCapacitiesOfWhatIsHere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rates.json")
	link := account.Capacity{Rate: 100, From: account.Declared}
	w := &worker{history: openHistory(path), probes: openProbes(path + "-"), network: account.Capacities{In: link, Out: link}}
	here := control.Job{ID: "a", Spec: control.Spec{Source: "file:///srv/object"}}
	if got := w.carries(here, "n"); got != (account.Capacities{Out: link}) {
		t.Errorf("of a file: got %+v", got)
	}
	if err := w.history.add(past(here, "n", account.Peak{In: 5000, Out: 50, Store: 5000})); err != nil {
		t.Fatal(err)
	}
	w.network = account.Capacities{}
	if got, want := w.carries(control.Job{Spec: control.Spec{Source: "s3://b/k"}}, "n"), (account.Capacities{Out: account.Capacity{Rate: 50, From: account.Seen}}); got != want {
		t.Errorf("of a store, after a file: got %+v, want %+v", got, want)
	}
	if got := w.carries(here, "n"); got.In.Known() || got.Store.Rate != 5000 {
		t.Errorf("of another file: got %+v", got)
	}

	blind := here // to this node, which gets everything from others
	blind.Members = []control.Member{{Name: "m"}, {Name: "n", NoAccess: true}}
	w.network = account.Capacities{In: link, Out: link}
	if got := w.carries(blind, "n"); got.In != link {
		t.Errorf("where it may not read the file: got %+v", got)
	}
	if got := w.carries(blind, "m"); got.In.Known() {
		t.Errorf("of one that may, beside one that may not: got %+v", got)
	}
	if err := w.history.add(past(blind, "n", account.Peak{In: 80, Out: 50})); err != nil {
		t.Fatal(err)
	}
	w.network = account.Capacities{}
	if got, want := w.carries(blind, "n").In, (account.Capacity{Rate: 80, From: account.Seen}); got != want {
		t.Errorf("after a job in which it might not read the file: got %+v, want %+v", got, want)
	}
}

// A probe is reckoned with where nothing is declared and no network card tells its speed, and
// where no other job has seen more; what it measured of one store says nothing of another.
func TestCapacitiesThatWereProbed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "probe.json")
	none := openHistory(filepath.Join(t.TempDir(), "rates.json"))
	w := &worker{history: none, probes: openProbes(path)}
	job := control.Job{Spec: control.Spec{Source: "s3://b/k?endpoint=http://h:1"}}
	store := storeOf(job.Spec.Source)
	day := func(d int) time.Time { return time.Date(2026, 11, d, 1, 2, 3, 0, time.UTC) }
	probed := func(rate unit.Bandwidth, d int) account.Capacity {
		return account.Capacity{Rate: rate, From: account.Probed, At: day(d)}
	}
	add := func(id, store string, found control.NodeProbe, d int) {
		t.Helper()
		if err := w.probes.add(id, store, found, day(d).Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, want account.Capacities) {
		t.Helper()
		w.probes = openProbes(path)
		if got := w.carries(job, "n"); got != want {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
	add("a", "", control.NodeProbe{}, 1)
	check("nothing was measured", account.Capacities{})
	add("a", "", control.NodeProbe{In: 100}, 1)
	add("a", "", control.NodeProbe{Out: 50}, 2)
	add("a", "", control.NodeProbe{In: 90, Out: 60}, 2)
	add("a", store, control.NodeProbe{Store: 30}, 2)
	add("a", "https://other ", control.NodeProbe{Store: 99}, 2)
	check("the most of a probe", account.Capacities{In: probed(100, 1), Out: probed(60, 1), Store: probed(30, 2)})
	add("b", "", control.NodeProbe{In: 20}, 5)
	check("another probe, and the store has given more than peers", account.Capacities{In: probed(30, 2), Store: probed(30, 2)})
	add("b", store, control.NodeProbe{Store: 10}, 5)
	check("the store once more", account.Capacities{In: probed(20, 5), Store: probed(10, 5)})
	if err := none.add(pastJob{"j", store, account.Peak{In: 19, Out: 7, Store: 11}}); err != nil {
		t.Fatal(err)
	}
	seen := func(rate unit.Bandwidth) account.Capacity { return account.Capacity{Rate: rate, From: account.Seen} }
	check("and another job", account.Capacities{In: probed(20, 5), Out: seen(7), Store: seen(11)})
	w.network.In = account.Capacity{Rate: 5, From: account.NIC}
	check("and a network card", account.Capacities{In: w.network.In, Out: seen(7), Store: w.network.In})
	w.network = account.Capacities{}
	for i := range keepStores {
		add("c", fmt.Sprint(i), control.NodeProbe{Store: 1}, 6)
	}
	check("after many other stores", account.Capacities{In: probed(20, 5), Out: seen(7), Store: seen(11)})
	if err := os.WriteFile(path, []byte(`{"in":`), 0o600); err != nil {
		t.Fatal(err)
	}
	check("of a broken file", account.Capacities{In: seen(19), Out: seen(7), Store: seen(11)})
}

func TestMachineTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stat")
	for text, want := range map[string][2]float64{
		"cpu  10 1 20 300 40 5 6 7 9 9\ncpu0 1 2 3": {340, 389},
		"cpu 1 2": {}, "": {}, "cpu 1 2 3 4 x": {}, "intr 1 2 3 4 5": {},
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if idle, total := machineTime(path); idle != want[0] || total != want[1] {
			t.Errorf("%q: got %v of %v, want %v", text, idle, total, want)
		}
	}
}

// slowFile takes a while for each write.
type slowFile struct{ swarm.File }

func (slowFile) WriteAt(b []byte, _ int64) (int, error) {
	time.Sleep(5 * time.Millisecond)
	return len(b), nil
}

// A course ends with the object in its place; what is sent afterwards is still told.
func TestCourseOfAPart(t *testing.T) {
	job := control.Job{Accepted: time.Now().Add(-time.Second), Members: make([]control.Member, 3)}
	c := newCourse(job, account.Capacities{In: account.Capacity{Rate: 1, From: account.NIC}})
	f := timed{slowFile{}, &c.written}
	if n, err := f.WriteAt(make([]byte, 10), 0); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	at := func(s float64) time.Time { return job.Accepted.Add(time.Duration(s * float64(time.Second))) }
	c.note(at(3), swarm.Progress{StoreBytes: 300, Spent: account.Times{account.FromStore: 2}, DoStep: 0.5, Do: "--ssss"})
	c.note(at(5), swarm.Progress{StoreBytes: 300, PeerBytes: 200, Done: true, DoneAt: at(4), Spent: account.Times{account.FromStore: 2, account.ForDisk: 1}, DoStep: 0.5, Do: "--ssssDD"})
	c.note(at(9), swarm.Progress{StoreBytes: 300, PeerBytes: 200, SentBytes: 50, Done: true, DoneAt: at(4)})
	got := c.end()
	sum := func(line []int64) (s int64) {
		for _, v := range line {
			s += v
		}
		return s
	}
	if math.Abs(got.Seconds-3) > 0.5 || got.Spent != (account.Times{account.FromStore: 2, account.ForDisk: 1}) || got.Do != "--ssssDD" || got.DoStep != 0.5 ||
		got.WriteS < 0.005 || sum(got.Store) != 300 || sum(got.Peers) != 200 || sum(got.Sent) != 50 || got.Carries.In.Rate != 1 {
		t.Errorf("got %+v", got)
	}
}

// A second in which this process takes all processors that it may is busy.
func TestLoad(t *testing.T) {
	var l load
	l.begin(time.Now())
	l.process -= time.Hour // as if it had taken that since
	l.sample(l.at.Add(500*time.Millisecond), false)
	if l.busy != 0 {
		t.Error("looked before a second was over")
	}
	l.sample(l.at.Add(time.Second), false)
	if l.busy != time.Second {
		t.Errorf("got %v busy, want a second", l.busy)
	}
	l.process -= time.Hour
	if l.sample(l.at.Add(300*time.Millisecond), true); l.busy != 1300*time.Millisecond {
		t.Errorf("at the end: got %v busy", l.busy)
	}
}
