package exchange

import (
	"math"
	"time"

	"github.com/freshet/freshet/unit"
)

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
