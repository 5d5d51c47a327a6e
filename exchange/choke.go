package exchange

import (
	"math"
	"slices"
	"time"

	"github.com/freshet/freshet/unit"
)

// Choke tells a peer whether it is served from now on.
type Choke struct {
	Peer   int
	Choked bool
}

// Rechoke returns whom to tell that it is served, or no longer. Free slots are
// filled at every call; once a second slots move to the interested peers with
// the best throughput, both directions added, and one slot goes round. A peer is interested if
// we have something that it lacks. O(peers log peers).
func (s *State) Rechoke(now time.Time) (changes []Choke) {
	s.now = now
	var interested []int
	for rank := range s.peers {
		if p := &s.peers[rank]; p.up && rank != s.Self && s.offers(rank) {
			interested = append(interested, rank)
		} else if p.up && !p.choked {
			p.choked = true
			changes = append(changes, Choke{rank, true})
		}
	}
	if len(interested) <= s.Slots {
		s.optimistic = -1
		return s.serve(interested, nil, changes)
	}
	if now.Sub(s.rechoked) < rechokeEvery {
		served, waiting := s.split(interested)
		s.Rand.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
		return s.serve(append(served, waiting[:max(0, s.Slots-len(served))]...), nil, changes)
	}
	s.rechoked = now
	s.Rand.Shuffle(len(interested), func(i, j int) { interested[i], interested[j] = interested[j], interested[i] })
	rates := map[int]unit.Bandwidth{}
	for _, rank := range interested {
		rates[rank] = s.peers[rank].in.at(now) + s.peers[rank].out.at(now)
	}
	slices.SortStableFunc(interested, func(a, b int) int {
		switch {
		case rates[a] > rates[b]:
			return -1
		case rates[a] < rates[b]:
			return 1
		}
		return 0
	})
	s.mix(interested)
	best, rest := interested[:s.Slots-1], interested[s.Slots-1:]
	if now.Sub(s.rotated) >= optimisticFor || !slices.Contains(rest, s.optimistic) {
		s.rotated = now
		s.optimistic = rest[s.Rand.IntN(len(rest))]
	}
	var others []int
	for _, rank := range rest {
		if rank != s.optimistic {
			others = append(others, rank)
		}
	}
	return s.serve(append(slices.Clone(best), s.optimistic), others, changes)
}

// offers says whether we have a piece that a peer lacks, and nobody of its site has if that is another.
func (s *State) offers(rank int) bool {
	has := s.lacks(rank)
	if has.Full() || s.have.Count() == 0 {
		return false
	}
	return s.have.Count() > has.Count() || !has.Covers(s.have)
}

func (s *State) split(ranks []int) (served, waiting []int) {
	for _, rank := range ranks {
		if s.peers[rank].choked {
			waiting = append(waiting, rank)
		} else {
			served = append(served, rank)
		}
	}
	return served, waiting
}

// serve unchokes and chokes, and appends what changed.
func (s *State) serve(unchoke, choke []int, changes []Choke) []Choke {
	for _, rank := range choke {
		if p := &s.peers[rank]; !p.choked {
			p.choked = true
			changes = append(changes, Choke{rank, true})
		}
	}
	for _, rank := range unchoke {
		if p := &s.peers[rank]; p.choked {
			p.choked = false
			changes = append(changes, Choke{rank, false})
		}
	}
	return changes
}

// meter measures a rate over about the last second.
type meter struct {
	rate  unit.Bandwidth
	bytes unit.Bytes // since the last reading
	since time.Time  // of the last reading; zero: nothing was ever counted
}

func (m *meter) add(n unit.Bytes, now time.Time) {
	if m.since.IsZero() {
		m.since = now
	}
	m.bytes += n
	m.at(now)
}

// at is the rate as of now. Readings closer than a tenth of a second are the same.
func (m *meter) at(now time.Time) unit.Bandwidth {
	const least, window = 0.1, 1.0
	if m.since.IsZero() {
		return 0
	}
	if dt := now.Sub(m.since).Seconds(); dt >= least {
		m.rate += (unit.Bandwidth(float64(m.bytes)/dt) - m.rate) * unit.Bandwidth(1-math.Exp(-dt/window))
		m.bytes, m.since = 0, now
	}
	return m.rate
}
