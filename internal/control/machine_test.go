package control

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

// A scenario is a list of events with the time since the job was accepted, and
// after each what the machine wants done and how the record stands, as
// transcript writes it.
type happening struct {
	at   time.Duration
	e    event
	want string
}

func status(name string, s State) hasStatus { return hasStatus{NodeStatus{Name: name, State: s}} }

func serving(name string, s State) hasStatus {
	return hasStatus{NodeStatus{Name: name, State: s, Serving: true}}
}

func failing(name, why string) hasStatus {
	return hasStatus{NodeStatus{Name: name, State: Failed, Error: why}}
}

func transcript(m *machine, cmds []command, durable bool) string {
	var b strings.Builder
	for _, c := range cmds {
		switch c := c.(type) {
		case cmdPrepare:
			fmt.Fprintf(&b, "prepare(%s) ", c.node)
		case cmdStart:
			fmt.Fprintf(&b, "start(%s) ", c.node)
		case cmdStop:
			fmt.Fprintf(&b, "stop(%s) ", c.node)
		}
	}
	if durable {
		b.WriteString("save ")
	}
	fmt.Fprintf(&b, "%s:", m.job.State)
	for _, n := range m.job.Nodes {
		fmt.Fprintf(&b, " %s=%s", n.Name, n.State)
		if n.Serving {
			b.WriteString("+serving")
		}
	}
	if m.job.Error != "" {
		fmt.Fprintf(&b, " (%s)", m.job.Error)
	}
	return b.String()
}

func TestMachine(t *testing.T) {
	const s = time.Second
	up := func(names ...string) map[string]string {
		m := map[string]string{}
		for _, n := range names {
			m[n] = n + ":1"
		}
		return m
	}
	ready := func(n string) event { return wasPrepared{node: n} }
	held := func(n string) event { return wasPrepared{node: n, present: true} }
	for name, c := range map[string]struct {
		up, down map[string]string
		timeout  time.Duration
		own      string // the node in the process of the control plane
		happens  []happening
	}{
		"all well": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "preparing: a=preparing b=preparing"},
			{2 * s, ready("a"), "start(a) start(b) save running: a=running b=running"},
			{3 * s, hasBeaten{"a", true}, "running: a=running b=running"},
			{4 * s, hasStatus{NodeStatus{Name: "b", State: Running, Have: 5}}, "running: a=running b=running"},
			{5 * s, status("b", Done), "save running: a=running b=done"},
			{6 * s, status("b", Running), "running: a=running b=done"}, // overtaken
			{7 * s, status("a", Done), "save done: a=done b=done"},
			{8 * s, failing("a", "late"), "done: a=done b=done"},
		}},
		"everybody has it": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, held("b"), "preparing: a=preparing b=preparing"},
			{2 * s, held("a"), "save done: a=present b=present"},
		}},
		"one has it and gives": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, held("a"), "preparing: a=preparing b=preparing"},
			{2 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{3 * s, status("b", Done), "save running: a=running b=done"},
			{4 * s, status("a", Present), "save done: a=present b=done"},
		}},
		"one down, one cannot, one silent": {up: up("a", "b", "c"), down: map[string]string{"d": "down: last heard of 3m0s ago"}, happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) prepare(c) preparing: a=preparing b=preparing c=preparing d=failed"},
			{1 * s, wasPrepared{node: "a", err: "disk\nfull"}, "preparing: a=failed b=preparing c=preparing d=failed"},
			{2 * s, ready("b"), "preparing: a=failed b=preparing c=preparing d=failed"},
			{14 * s, ticked{}, "preparing: a=failed b=preparing c=preparing d=failed"},
			{15 * s, ticked{}, "start(b) save running: a=failed b=running c=failed d=failed"},
			{16 * s, ready("c"), "running: a=failed b=running c=failed d=failed"}, // too late
			{17 * s, status("c", Done), "running: a=failed b=running c=failed d=failed"},
			{18 * s, status("b", Done), "save failed: a=failed b=done c=failed d=failed (a: disk full; and 2 more nodes)"},
		}},
		"nobody can": {up: up("a"), happens: []happening{
			{0, begun{}, "prepare(a) preparing: a=preparing"},
			{1 * s, wasPrepared{node: "a", err: "no"}, "save failed: a=failed (a: no)"},
		}},
		"a start that got lost": {up: up("a"), happens: []happening{
			{0, begun{}, "prepare(a) preparing: a=preparing"},
			{1 * s, ready("a"), "start(a) save running: a=running"},
			{1500 * time.Millisecond, status("a", Preparing), "running: a=running"}, // said before it came
			{5 * s, status("a", Preparing), "start(a) running: a=running"},
			{6 * s, status("a", Preparing), "running: a=running"},
			{7 * s, status("a", Running), "running: a=running"},
			{8 * s, notStarted{"a", "agent restarted during the job"}, "save failed: a=failed (a: agent restarted during the job)"},
		}},
		"a cancel that overtakes a start": {up: up("a"), happens: []happening{
			{0, begun{}, "prepare(a) preparing: a=preparing"},
			{1 * s, ready("a"), "start(a) save running: a=running"},
			{1 * s, toCancel{"cancelled"}, "stop(a) save running: a=running"},
			{2 * s, notStarted{"a", "agent restarted during the job"}, "save cancelled: a=cancelled (cancelled)"},
		}},
		"cancel while preparing": {up: up("a", "b", "c"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) prepare(c) preparing: a=preparing b=preparing c=preparing"},
			{1 * s, held("c"), "preparing: a=preparing b=preparing c=preparing"},
			{2 * s, toCancel{"cancelled"}, "stop(a) stop(b) stop(c) save cancelled: a=cancelled b=cancelled c=present (cancelled)"},
		}},
		"cancel, and one does not confirm": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{2 * s, toCancel{"cancelled"}, "stop(a) stop(b) save running: a=running b=running"},
			{2 * s, toCancel{"cancelled"}, "running: a=running b=running"},
			{3 * s, status("a", Cancelled), "save running: a=cancelled b=running"},
			{11 * s, hasBeaten{"b", true}, "stop(b) running: a=cancelled b=running"},
			{12 * s, ticked{}, "save cancelled: a=cancelled b=cancelled (cancelled)"},
		}},
		"one says that it was cancelled, and nobody has cancelled": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{2 * s, hasStatus{NodeStatus{Name: "a", State: Cancelled, Error: "by the operator"}}, "save running: a=failed b=running"},
			{3 * s, status("b", Done), "save failed: a=failed b=done (a: agent reported that it was cancelled, and nobody has cancelled the job: by the operator)"},
		}},
		"cancelled when all was done": {up: up("a"), happens: []happening{
			{0, begun{}, "prepare(a) preparing: a=preparing"},
			{1 * s, ready("a"), "start(a) save running: a=running"},
			{2 * s, toCancel{"cancelled"}, "stop(a) save running: a=running"},
			{3 * s, status("a", Done), "save done: a=done"},
		}},
		"timeout": {up: up("a"), timeout: 5 * s, happens: []happening{
			{0, begun{}, "prepare(a) preparing: a=preparing"},
			{1 * s, ready("a"), "start(a) save running: a=running"},
			{5 * s, ticked{}, "stop(a) save running: a=running"},
			{6 * s, failing("a", "timed out after 5s"), "save failed: a=failed (a: timed out after 5s)"},
		}},
		"timeout while preparing": {up: up("a"), timeout: 2 * s, happens: []happening{
			{0, begun{}, "prepare(a) preparing: a=preparing"},
			{2 * s, ticked{}, "stop(a) save failed: a=failed (a: timed out after 2s)"},
		}},
		"lost": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{10 * s, hasBeaten{"b", true}, "running: a=running b=running"},
			{11 * s, ticked{}, "save running: a=failed b=running"},
			{12 * s, status("b", Done), "save failed: a=failed b=done (a: lost: no sign of life for 10s)"},
		}},
		"stuck": {up: up("a", "b", "c"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) prepare(c) preparing: a=preparing b=preparing c=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing c=preparing"},
			{1 * s, ready("b"), "preparing: a=preparing b=preparing c=preparing"},
			{1 * s, ready("c"), "start(a) start(b) start(c) save running: a=running b=running c=running"},
			{2 * s, hasStatus{NodeStatus{Name: "a", State: Running, Have: 5}}, "running: a=running b=running c=running"},
			{2 * s, hasStatus{NodeStatus{Name: "b", State: Running, Have: 5}}, "running: a=running b=running c=running"},
			{299 * s, hasBeaten{"a", true}, "running: a=running b=running c=running"},
			{299 * s, hasStatus{NodeStatus{Name: "b", State: Running, Have: 6}}, "running: a=running b=running c=running"},
			{299 * s, serving("c", Done), "save running: a=running b=running c=done+serving"},
			{300 * s, ticked{}, "running: a=running b=running c=done+serving"}, // it has not been able to get it for long
			{400 * s, hasStatus{NodeStatus{Name: "b", State: Running, Have: 7}}, "running: a=running b=running c=done+serving"},
			{449 * s, hasStatus{NodeStatus{Name: "a", State: Running, Have: 5, StoreS: 440}}, "running: a=running b=running c=done+serving"},
			{449 * s, hasBeaten{"b", true}, "running: a=running b=running c=done+serving"},
			{449 * s, hasBeaten{"c", true}, "running: a=running b=running c=done+serving"},
			{449 * s, ticked{}, "running: a=running b=running c=done+serving"},
			{450 * s, ticked{}, "stop(a) save running: a=failed b=running c=done+serving"},
			{451 * s, status("a", Done), "running: a=failed b=running c=done+serving"}, // too late
			{452 * s, status("b", Done), "save running: a=failed b=done c=done+serving"},
			{453 * s, status("c", Done), "save failed: a=failed b=done c=done (a: stuck: nothing has moved for 7m28s with 5 B of 10 B there, though the agent answers and other nodes have the object: look at its disk and its log)"},
		}},
		"nobody is stuck where nobody has it": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{3599 * s, hasBeaten{"a", true}, "running: a=running b=running"},
			{3599 * s, hasBeaten{"b", true}, "running: a=running b=running"},
			{3600 * s, ticked{}, "running: a=running b=running"},
		}},
		"lost and found": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{10 * s, hasBeaten{"b", true}, "running: a=running b=running"},
			{11 * s, ticked{}, "save running: a=failed b=running"},
			{12 * s, status("a", Running), "save running: a=running b=running"},
			{13 * s, status("a", Done), "save running: a=done b=running"},
			{14 * s, status("b", Done), "save done: a=done b=done"},
		}},
		"done, and serves others": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{2 * s, serving("a", Done), "save running: a=done+serving b=running"},
			{3 * s, status("a", Running), "running: a=done+serving b=running"}, // overtaken
			{4 * s, serving("b", Done), "save running: a=done+serving b=done+serving"},
			{5 * s, status("b", Done), "save running: a=done+serving b=done"},
			{6 * s, failing("a", "late"), "save done: a=done b=done"},
		}},
		"serves, and nobody needs it": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{2 * s, serving("a", Done), "save running: a=done+serving b=running"},
			{3 * s, serving("b", Done), "save running: a=done+serving b=done+serving"},
			{3 * s, ticked{}, "running: a=done+serving b=done+serving"},
			{4 * s, status("b", Done), "save running: a=done+serving b=done"},
			{152 * s, serving("a", Done), "running: a=done+serving b=done"},
			{152 * s, ticked{}, "running: a=done+serving b=done"},
			{153 * s, ticked{}, "stop(a) save done: a=done b=done"},
			{154 * s, failing("a", "late"), "done: a=done b=done"},
		}},
		"serves one that has failed": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, held("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{2 * s, serving("a", Present), "save running: a=present+serving b=running"},
			{2 * s, ticked{}, "running: a=present+serving b=running"},
			{151 * s, hasBeaten{"a", true}, "running: a=present+serving b=running"},
			{151 * s, hasBeaten{"b", true}, "running: a=present+serving b=running"},
			{152 * s, ticked{}, "stop(b) save running: a=present+serving b=failed"},
			{301 * s, hasBeaten{"a", true}, "running: a=present+serving b=failed"},
			{301 * s, hasBeaten{"b", true}, "running: a=present+serving b=failed"},
			{301 * s, ticked{}, "running: a=present+serving b=failed"},
			{302 * s, ticked{}, "stop(a) save failed: a=present b=failed (b: stuck: nothing has moved for 2m31s with 0 B of 10 B there, though the agent answers and other nodes have the object: look at its disk and its log)"},
		}},
		"serves one that was lost and comes back": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{10 * s, serving("a", Done), "save running: a=done+serving b=running"},
			{11 * s, ticked{}, "save running: a=done+serving b=failed"},
			{100 * s, status("b", Running), "save running: a=done+serving b=running"},
			{160 * s, hasBeaten{"a", true}, "running: a=done+serving b=running"},
			{160 * s, hasBeaten{"b", true}, "running: a=done+serving b=running"},
			{161 * s, ticked{}, "running: a=done+serving b=running"},
			{162 * s, status("b", Done), "save running: a=done+serving b=done"},
			{163 * s, status("a", Done), "save done: a=done b=done"},
		}},
		"serves one that has lost the hub alone": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{10 * s, serving("a", Done), "save running: a=done+serving b=running"},
			{11 * s, ticked{}, "save running: a=done+serving b=failed"},
			{100 * s, hasStatus{NodeStatus{Name: "a", State: Done, Serving: true, SentBytes: 5}}, "running: a=done+serving b=failed"},
			{170 * s, hasBeaten{"a", true}, "running: a=done+serving b=failed"},
			{171 * s, ticked{}, "running: a=done+serving b=failed"},
			{172 * s, status("b", Done), "save running: a=done+serving b=done"},
			{173 * s, status("a", Done), "save done: a=done b=done"},
		}},
		"done, and its file is not the object": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{2 * s, serving("a", Done), "save running: a=done+serving b=running"},
			{3 * s, hasStatus{NodeStatus{Name: "a", State: Failed, Wrong: true, Error: "bad disk"}}, "save running: a=failed b=running"},
			{4 * s, status("b", Done), "save failed: a=failed b=done (a: bad disk)"},
		}},
		"the control plane was stopped": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{9 * s, wasAway{5 * s}, "running: a=running b=running"},
			{14 * s, hasBeaten{"b", true}, "running: a=running b=running"},
			{15 * s, hasBeaten{"a", true}, "running: a=running b=running"},
			{70 * s, wasAway{54 * s}, "running: a=running b=running"},
			{70 * s, ticked{}, "running: a=running b=running"},
			{83 * s, hasBeaten{"b", true}, "running: a=running b=running"},
			{84 * s, ticked{}, "running: a=running b=running"},
			{85 * s, ticked{}, "save running: a=failed b=running"},
			{86 * s, status("b", Done), "save failed: a=failed b=done (a: lost: no sign of life for 10s)"},
		}},
		"the control plane was stopped while nodes prepared": {up: up("a", "b", "c"), down: map[string]string{"d": "down: last heard of 3m0s ago"}, happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) prepare(c) preparing: a=preparing b=preparing c=preparing d=failed"},
			{1 * s, ready("b"), "preparing: a=preparing b=preparing c=preparing d=failed"},
			{17 * s, wasAway{16 * s}, "prepare(a) prepare(c) preparing: a=preparing b=preparing c=preparing d=failed"},
			{17 * s, ticked{}, "preparing: a=preparing b=preparing c=preparing d=failed"},
			{18 * s, ready("a"), "preparing: a=preparing b=preparing c=preparing d=failed"},
			{31 * s, ticked{}, "preparing: a=preparing b=preparing c=preparing d=failed"},
			{32 * s, ticked{}, "start(a) start(b) save running: a=running b=running c=failed d=failed"},
			{50 * s, wasAway{18 * s}, "running: a=running b=running c=failed d=failed"},
		}},
		"the control plane was stopped before it could begin": {up: up("a"), happens: []happening{
			{3 * s, wasAway{3 * s}, "preparing: a=preparing"},
			{3 * s, begun{}, "prepare(a) preparing: a=preparing"},
		}},
		"stopped for less than it takes to be lost": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{9 * s, wasAway{5 * s}, "running: a=running b=running"},
			{11 * s, hasBeaten{"b", true}, "running: a=running b=running"},
			{15 * s, ticked{}, "running: a=running b=running"},
			{16 * s, ticked{}, "save running: a=failed b=running"},
			{17 * s, status("b", Done), "save failed: a=failed b=done (a: lost: no sign of life for 10s)"},
		}},
		"the control plane is cut off": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{2 * s, hasBeaten{"b", true}, "running: a=running b=running"},
			{8 * s, ticked{}, "running: a=running b=running"},
			{11 * s, ticked{}, "running: a=running b=running"},
			{100 * s, ticked{}, "running: a=running b=running"},
			{101 * s, status("b", Done), "save running: a=running b=done"},
			{102 * s, ticked{}, "running: a=running b=done"},
			{116 * s, ticked{}, "running: a=running b=done"},
			{117 * s, ticked{}, "save failed: a=failed b=done (a: lost: no sign of life for 10s)"},
		}},
		"nobody is stuck where the control plane is cut off": {up: up("a", "b", "c"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) prepare(c) preparing: a=preparing b=preparing c=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing c=preparing"},
			{1 * s, ready("b"), "preparing: a=preparing b=preparing c=preparing"},
			{1 * s, ready("c"), "start(a) start(b) start(c) save running: a=running b=running c=running"},
			{2 * s, status("c", Done), "save running: a=running b=running c=done"},
			{3 * s, ticked{}, "running: a=running b=running c=done"},
			{30 * s, hasBeaten{"a", true}, "running: a=running b=running c=done"},
			{30 * s, hasBeaten{"b", true}, "running: a=running b=running c=done"},
			{36 * s, ticked{}, "running: a=running b=running c=done"},
			{154 * s, ticked{}, "running: a=running b=running c=done"},
			{155 * s, hasBeaten{"a", true}, "running: a=running b=running c=done"},
			{155 * s, ticked{}, "running: a=running b=running c=done"},
			{277 * s, hasBeaten{"a", true}, "running: a=running b=running c=done"},
			{277 * s, hasBeaten{"b", true}, "running: a=running b=running c=done"},
			{277 * s, ticked{}, "running: a=running b=running c=done"},
			{278 * s, ticked{}, "stop(a) stop(b) save failed: a=failed b=failed c=done (a: stuck: nothing has moved for 2m32s with 0 B of 10 B there, though the agent answers and other nodes have the object: look at its disk and its log; and 1 more node)"},
		}},
		"the control plane is cut off, but for the node in its own process": {up: up("a", "b", "c"), own: "c", happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) prepare(c) preparing: a=preparing b=preparing c=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing c=preparing"},
			{1 * s, ready("b"), "preparing: a=preparing b=preparing c=preparing"},
			{1 * s, ready("c"), "start(a) start(b) start(c) save running: a=running b=running c=running"},
			{8 * s, hasBeaten{"c", true}, "running: a=running b=running c=running"},
			{8 * s, ticked{}, "running: a=running b=running c=running"},
			{11 * s, hasBeaten{"c", true}, "running: a=running b=running c=running"},
			{12 * s, ticked{}, "running: a=running b=running c=running"},
		}},
		"the control plane is cut off when only one has not ended": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{2 * s, status("b", Done), "save running: a=running b=done"},
			{7 * s, hasBeaten{"b", false}, "running: a=running b=done"},
			{8 * s, hasBeaten{"a", true}, "running: a=running b=done"},
			{14 * s, ticked{}, "running: a=running b=done"},
			{133 * s, ticked{}, "running: a=running b=done"},
			{133 * s, hasBeaten{"b", false}, "running: a=running b=done"},
			{133 * s, ticked{}, "running: a=running b=done"},
			{147 * s, hasBeaten{"b", false}, "running: a=running b=done"},
			{147 * s, ticked{}, "running: a=running b=done"},
			{148 * s, ticked{}, "save failed: a=failed b=done (a: lost: no sign of life for 10s)"},
		}},
		"one is lost when no other is up": {up: up("a", "b", "c"), own: "c", happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) prepare(c) preparing: a=preparing b=preparing c=preparing"},
			{1 * s, wasPrepared{node: "b", err: "disk full"}, "preparing: a=preparing b=failed c=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=failed c=preparing"},
			{1 * s, ready("c"), "start(a) start(c) save running: a=running b=failed c=running"},
			{2 * s, hasBeaten{"b", false}, "running: a=running b=failed c=running"}, // for the last time
			{8 * s, hasBeaten{"a", true}, "running: a=running b=failed c=running"},
			{17 * s, hasBeaten{"c", true}, "running: a=running b=failed c=running"},
			{17 * s, ticked{}, "running: a=running b=failed c=running"},
			{18 * s, ticked{}, "save running: a=failed b=failed c=running"},
		}},
		"those die who have not ended": {up: up("a", "b", "c"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) prepare(c) preparing: a=preparing b=preparing c=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing c=preparing"},
			{1 * s, ready("b"), "preparing: a=preparing b=preparing c=preparing"},
			{1 * s, ready("c"), "start(a) start(b) start(c) save running: a=running b=running c=running"},
			{2 * s, status("c", Done), "save running: a=running b=running c=done"},
			{8 * s, hasBeaten{"c", false}, "running: a=running b=running c=done"},
			{8 * s, ticked{}, "running: a=running b=running c=done"},
			{10 * s, hasBeaten{"c", false}, "running: a=running b=running c=done"},
			{11 * s, ticked{}, "save failed: a=failed b=failed c=done (a: lost: no sign of life for 10s; and 1 more node)"},
		}},
		"all die at once": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{7 * s, ticked{}, "running: a=running b=running"},
			{126 * s, ticked{}, "running: a=running b=running"},
			{127 * s, ticked{}, "save failed: a=failed b=failed (a: lost: no sign of life for 10s; and 1 more node)"},
		}},
		"lost while it only serves": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, held("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{2 * s, serving("a", Present), "save running: a=present+serving b=running"},
			{11 * s, hasBeaten{"b", true}, "running: a=present+serving b=running"},
			{12 * s, ticked{}, "running: a=present+serving b=running"},
			{13 * s, status("b", Done), "save done: a=present b=done"},
		}},
		"an agent that only served is started again": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{2 * s, serving("a", Done), "save running: a=done+serving b=running"},
			{3 * s, hasBeaten{"a", false}, "running: a=done+serving b=running"},
			{5 * s, hasBeaten{"a", false}, "save running: a=done b=running"},
			{6 * s, status("b", Done), "save done: a=done b=done"},
		}},
		"cancel while one only serves": {up: up("a", "b"), happens: []happening{
			{0, begun{}, "prepare(a) prepare(b) preparing: a=preparing b=preparing"},
			{1 * s, ready("a"), "preparing: a=preparing b=preparing"},
			{1 * s, ready("b"), "start(a) start(b) save running: a=running b=running"},
			{2 * s, serving("a", Done), "save running: a=done+serving b=running"},
			{3 * s, toCancel{"cancelled"}, "stop(a) stop(b) save running: a=done+serving b=running"},
			{4 * s, status("b", Cancelled), "save running: a=done+serving b=cancelled"},
			{13 * s, ticked{}, "save cancelled: a=done b=cancelled (cancelled)"},
		}},
		"an agent without the job": {up: up("a"), happens: []happening{
			{0, begun{}, "prepare(a) preparing: a=preparing"},
			{1 * s, ready("a"), "start(a) save running: a=running"},
			{1 * s, hasBeaten{"a", false}, "running: a=running"}, // was under way
			{2 * s, hasBeaten{"a", true}, "running: a=running"},
			{3 * s, hasBeaten{"a", false}, "running: a=running"},
			{4 * s, hasBeaten{"a", false}, "running: a=running"},
			{5 * s, hasBeaten{"a", false}, "save failed: a=failed (a: agent restarted during the job)"},
		}},
		"strangers": {up: up("a"), happens: []happening{
			{0, begun{}, "prepare(a) preparing: a=preparing"},
			{0, ready("x"), "preparing: a=preparing"},
			{0, status("a", Done), "preparing: a=preparing"}, // not started
			{1 * s, ready("a"), "start(a) save running: a=running"},
			{2 * s, status("x", Done), "running: a=running"},
			{2 * s, status("a", "nonsense"), `save failed: a=failed (a: agent reported a state "nonsense" that this control plane does not know)`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t0 := time.Unix(1e9, 0)
			m := newMachine(Job{ID: "j", Accepted: t0, Object: objstore.Object{Size: 10}, Spec: Spec{Timeout: Duration(c.timeout)}}, c.up, c.down)
			m.own = c.own
			for _, h := range c.happens {
				before := m.job.Revision
				cmds, changed, durable := m.step(t0.Add(h.at), h.e)
				if got := transcript(m, cmds, durable); got != h.want {
					t.Errorf("at %v, %T%+v:\n got %s\nwant %s", h.at, h.e, h.e, got, h.want)
				}
				if (m.job.Revision > before) != changed {
					t.Errorf("at %v: revision %d after %d, changed %v", h.at, m.job.Revision, before, changed)
				}
				if m.job.State.Ended() == m.job.Ended.IsZero() {
					t.Errorf("at %v: %s, ended %v", h.at, m.job.State, m.job.Ended)
				}
			}
		})
	}
}

// A disk may take its time with what is there.
func TestStuckAtItsDisk(t *testing.T) {
	t0 := time.Unix(1e9, 0)
	m := newMachine(Job{ID: "j", Object: objstore.Object{Size: 10e9}}, map[string]string{"a": "a:1"}, nil)
	m.placed, m.moved["a"] = t0, t0
	for _, tt := range []struct {
		have unit.Bytes
		want time.Duration
	}{{10e9 - 1, 150 * time.Second}, {10e9, 1150 * time.Second}} {
		n := &NodeStatus{Name: "a", Have: tt.have}
		if m.stuck(t0.Add(tt.want-1), n) || !m.stuck(t0.Add(tt.want), n) {
			t.Errorf("with %v there it is not stuck after %v and no sooner", tt.have, tt.want)
		}
	}
}

// What a node says in numbers is believed as far as it can be, so that sums and quotients of it can be shown.
func TestNumbersAreBounded(t *testing.T) {
	const most = unit.Bytes(math.MaxInt64)
	got := bounded(NodeStatus{State: Done, Have: most, Kept: most, StoreBytes: most, PeerBytes: most, CrossedBytes: most, SentBytes: -1, DoneS: 1.7e308, StoreS: 2e8}, 10)
	want := NodeStatus{State: Done, Have: 10, Kept: 10, StoreBytes: 1 << 50, PeerBytes: 1 << 50, CrossedBytes: 1 << 50}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	year := NodeStatus{State: Done, Have: 10, StoreBytes: 1e15, DoneS: 31.5e6, StoreS: 31e6}
	if got := bounded(year, 10); !reflect.DeepEqual(got, year) {
		t.Errorf("got %+v, want %+v", got, year)
	}
}

// When a job times out is not for who sets the clock, unless the control plane was started again meanwhile.
func TestTimeoutOutlivesTheWallClock(t *testing.T) {
	job := Job{ID: "j", Accepted: time.Now(), Spec: Spec{Timeout: Duration(time.Minute)}}
	m := newMachine(job, map[string]string{"a": "a:1"}, nil)
	wall := func(at time.Time) time.Time { return at.Round(0) } // as it is in a record
	if m.timeout == wall(m.timeout) || m.accepted == wall(m.accepted) || m.timeout.Sub(m.accepted) != time.Minute {
		t.Errorf("accepted %v, times out %v: want both by a monotonic clock", m.accepted, m.timeout)
	}
	if got := m.snapshot().Accepted; got != wall(job.Accepted).UTC() {
		t.Errorf("the record says %v, want %v", got, wall(job.Accepted).UTC())
	}
	running := m.snapshot()
	running.State = Running
	if r, _ := resume(running, time.Now()); !r.timeout.Equal(wall(job.Accepted).Add(time.Minute)) {
		t.Errorf("after a restart it times out %v, want a minute after %v", r.timeout, job.Accepted)
	}
}

func TestWhoServesIsNotSettled(t *testing.T) {
	j := Job{State: Running, Nodes: []NodeStatus{{Name: "a", State: Done, Serving: true}, {Name: "b", State: Done}}}
	if settled(j, "a") || !settled(j, "b") {
		t.Errorf("settled: a %v, b %v, want false, true", settled(j, "a"), settled(j, "b"))
	}
}

func TestSettle(t *testing.T) {
	said := NodeStatus{State: Done, Serving: true, Have: 10, SentBytes: 5, Verified: "source", DoneS: 1}
	for name, c := range map[string]struct{ last, final, want NodeStatus }{
		"done stays done": {said, NodeStatus{State: Failed, Error: "agent was stopped", SentBytes: 7}, NodeStatus{State: Done, Have: 10, SentBytes: 7, Verified: "source", DoneS: 1}},
		"done and wrong":  {said, NodeStatus{State: Failed, Wrong: true, Error: "no"}, NodeStatus{State: Failed, Wrong: true, Error: "no"}},
		"final counters":  {said, NodeStatus{State: Done, Have: 10, SentBytes: 9, SHA256: "ab"}, NodeStatus{State: Done, Have: 10, SentBytes: 9, SHA256: "ab"}},
		"held wrong":      {NodeStatus{State: Present, Serving: true}, NodeStatus{State: Failed, Error: "no"}, NodeStatus{State: Failed, Error: "no"}},
		"running":         {NodeStatus{State: Running}, NodeStatus{State: Failed, Error: "no"}, NodeStatus{State: Failed, Error: "no"}},
	} {
		if got := settle(c.last, c.final); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestResume(t *testing.T) {
	t0 := time.Unix(1e9, 0)
	m := newMachine(Job{ID: "j", Accepted: t0}, map[string]string{"a": "a:1", "b": "b:1"}, nil)
	m.step(t0, begun{})
	r, changed := resume(m.snapshot(), t0.Add(time.Minute))
	if got, want := transcript(r, nil, changed), "save failed: a=failed b=failed ("+errRestarted+")"; got != want {
		t.Errorf("preparing: got %s, want %s", got, want)
	}
	m.step(t0, wasPrepared{node: "a"})
	m.step(t0, wasPrepared{node: "b"})
	t1 := t0.Add(time.Hour)
	r, changed = resume(m.snapshot(), t1)
	if changed || r.job.State != Running {
		t.Fatalf("running: got %s", transcript(r, nil, changed))
	}
	r.step(t1.Add(10*time.Second), ticked{})
	cmds, _, _ := r.step(t1.Add(10*time.Second), status("a", Preparing)) // the hub died before it could start it
	if got, want := transcript(r, cmds, false), "start(a) running: a=running b=running"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.step(t1.Add(14*time.Second), ticked{})
	if got, want := transcript(r, nil, false), "running: a=running b=running"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.step(t1.Add(15*time.Second), ticked{})
	if got, want := r.job.Nodes[1].Error, "lost: no sign of life for 10s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	again, _ := resume(r.snapshot(), t1.Add(time.Minute)) // another hub may take it back as well
	again.step(t1.Add(61*time.Second), status("b", Done))
	if got, want := transcript(again, nil, false), "running: a=running b=done"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.step(t1.Add(16*time.Second), status("a", Done))
	if got, want := r.job.Error, "b: lost: no sign of life for 10s"; r.job.State != Failed || got != want {
		t.Errorf("got %s %q, want %q", r.job.State, got, want)
	}
}

func TestSelectNodes(t *testing.T) {
	known := map[string]NodeView{
		"gpu-1": {Name: "gpu-1", Site: "east", Labels: map[string]string{"rack": "1"}},
		"gpu-2": {Name: "gpu-2", Site: "west", Labels: map[string]string{"rack": "2"}},
		"cpu-1": {Name: "cpu-1", Site: "east"},
	}
	for _, c := range []struct{ sel, want string }{
		{"", "cpu-1 gpu-1 gpu-2"},
		{"gpu-1", "gpu-1"},
		{"gpu-*", "gpu-1 gpu-2"},
		{"gpu-2 gpu-? cpu-1", "cpu-1 gpu-1 gpu-2"},
		{"site=east", "cpu-1 gpu-1"},
		{"rack=[12]", "gpu-1 gpu-2"},
		{"rack=3", `no node matches "rack=3"; known nodes: cpu-1, gpu-1, gpu-2`},
		{"gpu-1 gpu-9", `no node matches "gpu-9"; known nodes: cpu-1, gpu-1, gpu-2`},
		{"[", `selector "[": unfinished pattern`},
		{"=x", `selector "=x": want a name, a glob such as "gpu-*" or label=value`},
	} {
		names, err := selectNodes(strings.Fields(c.sel), known)
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: got %q, want %q", c.sel, got, c.want)
		}
	}
}

func TestIDs(t *testing.T) {
	t0 := idEpoch.Add(time.Hour)
	a, b := newID(t0), newID(t0.Add(10*time.Millisecond))
	if len(a) != idChars || !isIDPrefix(a) || a >= b {
		t.Errorf("got %q and %q 10ms later", a, b)
	}
	if got, want := idTime(b), t0.Add(10*time.Millisecond); !got.Equal(want) {
		t.Errorf("%q is of %v, want %v", b, got, want)
	}
	for _, id := range []string{"", "some-job", "uuuuuuuuuuuu"} {
		if got := idTime(id); !got.Equal(idEpoch) {
			t.Errorf("%q is of %v, want %v", id, got, idEpoch)
		}
	}
}

// Jobs' IDs sort by age, also of those that are accepted after a clock that was ahead was put right.
func TestIDsAfterAClockThatWasAhead(t *testing.T) {
	now := idEpoch.Add(time.Hour)
	h := &Hub{active: map[string]*driven{}}
	if got := h.later(now); !got.Equal(now) {
		t.Errorf("the first job's ID is of %v, want %v", got, now)
	}
	past, ahead, further := newID(now.Add(-time.Minute)), newID(now.Add(time.Hour)), newID(now.Add(2*time.Hour))
	h.ended = []string{past}
	if got := h.later(now); !got.Equal(now) {
		t.Errorf("after one of the past: an ID of %v, want %v", got, now)
	}
	h.ended = []string{past, ahead}
	if id := newID(h.later(now)); id <= ahead {
		t.Errorf("got %s after %s", id, ahead)
	}
	h.active[further] = nil
	if id := newID(h.later(now)); id <= further {
		t.Errorf("got %s after %s, which runs", id, further)
	}
}

// The job that has just ended is not forgotten, wherever its ID stands among the others'.
func TestWhatHasJustEndedIsKept(t *testing.T) {
	var ended []string
	for i := range keepJobs + 2 {
		ended = append(ended, fmt.Sprintf("%05d", i))
	}
	for _, tt := range []struct {
		just string
		n    int // of ended
		old  string
	}{
		{"00003", keepJobs, ""},
		{"01000", keepJobs + 1, "00000"},
		{"00000", keepJobs + 1, "00001"},
		{"00001", keepJobs + 2, "00000 00002"},
	} {
		kept, old := outlived(ended[:tt.n], tt.just)
		if got := strings.Join(old, " "); got != tt.old || len(kept)+len(old) != tt.n || !slices.Contains(kept, tt.just) || !slices.IsSorted(kept) {
			t.Errorf("%s of %d: forgets %q and keeps %d, want %q", tt.just, tt.n, got, len(kept), tt.old)
		}
	}
}

func TestErrorsOnTheWire(t *testing.T) {
	for i, k := range kinds {
		if k == nil {
			continue
		}
		err := decodeError(encodeError(fmt.Errorf("n1: a\nb: %w", k)))
		if got, want := err.Error(), "n1: a b: "+k.Error(); got != want {
			t.Errorf("kind %d: got %q, want %q", i, got, want)
		}
		for _, other := range kinds {
			if other != nil && (other == k) != errors.Is(err, other) {
				t.Errorf("kind %d is %v: %v", i, other, !(other == k))
			}
		}
	}
	for _, s := range []string{"", "x", "99 from the future", "-1 x", "7"} {
		if err := decodeError(s); err == nil || err.Error() == "" {
			t.Errorf("%q: got %v", s, err)
		}
	}
}

func TestDifferingFiles(t *testing.T) {
	for _, tt := range []struct {
		sums []string
		want bool
	}{{nil, false}, {[]string{"", ""}, false}, {[]string{"a", "a", ""}, false}, {[]string{"", "a", "a", "b"}, true}} {
		m := &machine{}
		for i, s := range tt.sums {
			m.job.Nodes = append(m.job.Nodes, NodeStatus{Name: fmt.Sprint(i), State: Done, SHA256: s})
		}
		m.end(time.Now())
		if failed := m.job.State == Failed; failed != tt.want || failed != strings.Contains(m.job.Error, "SHA-256") {
			t.Errorf("%q: %s, %q", tt.sums, m.job.State, m.job.Error)
		}
	}
}

// A node that may not read the source takes part if another can, or has what
// is to be given; else nobody can.
func TestSharedAccess(t *testing.T) {
	for _, tt := range []struct {
		name    string
		a, b    wasPrepared
		want    State // of b, when all have answered
		members int
	}{
		{"a reads", wasPrepared{node: "a"}, wasPrepared{node: "b", noAccess: "access denied"}, Running, 2},
		{"a holds", wasPrepared{node: "a", present: true, noAccess: "access denied"}, wasPrepared{node: "b", noAccess: "access denied"}, Running, 2},
		{"nobody", wasPrepared{node: "a", noAccess: "access denied"}, wasPrepared{node: "b", noAccess: "no such object"}, Failed, 0},
		{"both hold", wasPrepared{node: "a", present: true, noAccess: "access denied"}, wasPrepared{node: "b", present: true, noAccess: "access denied"}, Present, 0},
	} {
		m := newMachine(Job{ID: "j", Spec: Spec{ShareAccess: true}, Object: objstore.Object{Size: 1}}, map[string]string{"a": "a:1", "b": "b:1"}, nil)
		now := time.Unix(0, 0)
		for _, e := range []event{begun{}, tt.a, tt.b} {
			m.step(now, e)
		}
		b := m.node("b")
		if b.State != tt.want || len(m.job.Members) != tt.members {
			t.Errorf("%s: b is %s (%s), %d members; want %s and %d", tt.name, b.State, b.Error, len(m.job.Members), tt.want, tt.members)
		}
		if tt.want == Failed && (!strings.Contains(b.Error, "no such object") || !strings.Contains(b.Error, "--share-access")) {
			t.Errorf("%s: b fails with %q", tt.name, b.Error)
		}
		if tt.want != Running {
			continue
		}
		m.step(now, hasStatus{NodeStatus{Name: "b", State: Running, Have: 1}})
		if !m.node("b").NoAccess || !m.job.Members[1].NoAccess {
			t.Errorf("%s: it does not say that b may not read: %+v", tt.name, b)
		}
	}
}
