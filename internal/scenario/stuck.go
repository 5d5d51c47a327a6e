package scenario

import (
	"fmt"
	"math"
	"slices"

	"github.com/freshet/freshet/steal"
)

// This file finds broadcasts that never end: before they begin, and while nothing arrives.

// maxSeconds is longer than anybody waits: a scenario that takes a month does not end.
const maxSeconds = 30 * 24 * 3600

// While nothing arrives nobody waits for another for longer than stillness, and times as long as something has taken, delays not
// counted: who gives nothing is passed over after 30 s, and overtaken after 4 times as long as a piece took (steal.Imports).
const (
	stillness = 600
	times     = 10
)

// still is whether nothing will ever arrive again: nothing has for long, nothing that is on its way will within a month, nobody waits for its turn to
// read, and none of the scenario's events is to come. The simulation does not run out by itself, since what nodes look at every now and then they look at for ever.
func (w *world) still() bool {
	now := w.sim.Now()
	if now < w.look || now-w.moved < w.patience+times*w.moved {
		return false
	}
	w.look = now + w.patience
	if slices.ContainsFunc(w.Events, func(e Event) bool { return e.At.Seconds() >= now && e.At.Seconds() <= maxSeconds }) {
		return false
	}
	for i := range w.nodes {
		if n := &w.nodes[i]; n.waits && n.done < 0 && !n.stopped && !n.killed {
			return false
		}
	}
	return w.sim.Due() > maxSeconds
}

// hopeless says why the broadcast cannot end within a month, if that can be seen before it begins: a node that neither dies nor stops can never have
// the object, or the bound for all of those says so. Links have the highest rates that they will ever have.
func (w *world) hopeless() error {
	stays, count := make([]bool, len(w.nodes)), len(w.nodes)
	for i := range stays {
		stays[i] = true
	}
	for _, ev := range w.Events {
		if i := w.hostOf[ev.Host]; (ev.Do == Die || ev.Do == Stop) && stays[i] {
			stays[i] = false
			count--
		}
	}
	rates, down := w.most(math.Inf(1), func(node int) bool { return stays[node] })
	for i := range w.nodes {
		if host := w.nodes[i].host; stays[i] && down[i] == 0 && len(w.router.Out(host)) > 0 {
			return fmt.Errorf("%s can never have the object: towards it the rate of its links is 0", w.Network.Hosts[host].Name)
		}
	}
	if count == 0 {
		return nil
	}
	for _, s := range rates.Sites {
		if s.Rate == 0 {
			return fmt.Errorf("nobody in site %s can ever have the object: the rate of what enters it is 0", s.Site)
		}
	}
	if s := rates.Source; s.Site != "" && s.Rate == 0 {
		return fmt.Errorf("nobody outside site %s can ever have the object: the rate of what leaves it is 0", s.Site)
	}
	if seconds, by := steal.Bound(w.Layout.Size, count, rates); seconds > maxSeconds {
		const day = 24 * 3600
		days := "more than a million"
		if seconds < 1e6*day {
			days = fmt.Sprintf("%.0f", seconds/day)
		}
		return fmt.Errorf("at these rates it takes %s days at least (set by: %s), and %d are the most that are simulated", days, by, maxSeconds/day)
	}
	return nil
}

func (w *world) stuck() error {
	for i := range w.nodes {
		if n := &w.nodes[i]; !n.dead && !n.killed && !n.absent && n.done < 0 {
			lack := "nodes lack"
			if w.open == 1 {
				lack = "node lacks"
			}
			return fmt.Errorf("the broadcast does not end: %d %s pieces, such as %s, which has %d of %d; is a rate 0, or next to it, or a node stopped for ever?",
				w.open, lack, w.Network.Hosts[n.host].Name, n.ex.Have().Count(), w.Layout.Count())
		}
	}
	return fmt.Errorf("the broadcast does not end")
}
