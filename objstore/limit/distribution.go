package limit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/unit"
)

// Distribution is what the rate of a connection is drawn from: a mixture of
// uniform bands. The zero Distribution draws no limit. It is a value and is
// never changed after it was made.
//
//	written                                     meaning
//	unlimited                                   no limit (also "" and "0")
//	5MB/s                                       every connection the same
//	4MB/s-6MB/s                                 uniform between the two
//	65%:4MB/s-6MB/s,35%:10MB/s                  a mixture; the weights make 100 %
//	paper, paper*5                              Paper, Paper.Scaled(5)
type Distribution struct {
	bands []Band
	paper float64 // the factor if this is Paper.Scaled(factor), else 0; only for printing
}

// Band is one part of a mixture: rates uniform in [Lo, Hi), or Lo where both
// are the same.
type Band struct {
	Weight float64 // of 1
	Lo, Hi unit.Bandwidth
}

// Paper is what one connection between an EC2 node and S3 got (Chiba et al.
// 2010, section 3): on 60-70 % of the tries at most 6 MB/s, on 20-30 % at
// least 8 MB/s and up to a little over 10, whatever the node had got before.
var Paper = Distribution{paper: 1, bands: []Band{
	{0.65, 4 * unit.MBps, 6 * unit.MBps},
	{0.10, 6 * unit.MBps, 8 * unit.MBps},
	{0.25, 8 * unit.MBps, 10.5 * unit.MBps},
}}

// Constant gives every connection the rate r; r ≤ 0 is no limit.
func Constant(r unit.Bandwidth) Distribution {
	if r <= 0 {
		return Distribution{}
	}
	return Distribution{bands: []Band{{1, r, r}}}
}

// Mixture is made of bands whose weights add up to 1.
func Mixture(bands ...Band) (Distribution, error) {
	sum := 0.0
	for _, b := range bands {
		switch {
		case !(b.Weight > 0 && b.Weight <= 1):
			return Distribution{}, fmt.Errorf("weight %s is not between 0 and 100%%", percent(b.Weight))
		case !(b.Lo > 0) || math.IsInf(float64(b.Hi), 0):
			return Distribution{}, fmt.Errorf("rate %v cannot be drawn: want one above zero", b.Lo)
		case !(b.Hi >= b.Lo):
			return Distribution{}, fmt.Errorf("rates %v to %v: the first is the larger", b.Lo, b.Hi)
		}
		sum += b.Weight
	}
	if math.Abs(sum-1) > 1e-6 {
		return Distribution{}, fmt.Errorf("weights add up to %s, want 100%%", percent(sum))
	}
	return Distribution{bands: append([]Band(nil), bands...)}, nil
}

// Scaled multiplies every rate by f > 0.
func (d Distribution) Scaled(f float64) Distribution {
	out := Distribution{paper: d.paper * f}
	for _, b := range d.bands {
		out.bands = append(out.bands, Band{b.Weight, b.Lo * unit.Bandwidth(f), b.Hi * unit.Bandwidth(f)})
	}
	return out
}

// Bands are what d is a mixture of; none: it draws no limit.
func (d Distribution) Bands() []Band { return slices.Clone(d.bands) }

// Words says d to people: "65 % 4 MB/s to 6 MB/s, …", as rounded as unit prints rates.
func (d Distribution) Words() string {
	if d.Unlimited() {
		return "unlimited"
	}
	var parts []string
	for _, b := range d.bands {
		parts = append(parts, fmt.Sprintf("%.3g %% %v to %v", 100*b.Weight, b.Lo, b.Hi))
	}
	return strings.Join(parts, ", ")
}

// Unlimited says whether d draws no limit at all.
func (d Distribution) Unlimited() bool { return len(d.bands) == 0 }

// Draw takes one rate from d; 0 means no limit. It takes two numbers from rng
// whatever d is, so that runs with one seed and other rates stay comparable.
func (d Distribution) Draw(rng *rand.Rand) unit.Bandwidth {
	which, where := rng.Float64(), rng.Float64()
	for i, b := range d.bands {
		if which -= b.Weight; which < 0 || i == len(d.bands)-1 {
			return b.Lo + (b.Hi-b.Lo)*unit.Bandwidth(where)
		}
	}
	return 0
}

// Mean is the rate to be expected; 0 means no limit.
func (d Distribution) Mean() (m unit.Bandwidth) {
	for _, b := range d.bands {
		m += unit.Bandwidth(b.Weight) * (b.Lo + b.Hi) / 2
	}
	return m
}

// ParseDistribution reads what String prints.
func ParseDistribution(s string) (Distribution, error) {
	t := strings.TrimSpace(s)
	switch {
	case t == "" || t == "0" || t == "unlimited":
		return Distribution{}, nil
	case t == "paper":
		return Paper, nil
	}
	if f, ok := strings.CutPrefix(t, "paper*"); ok {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || !(v > 0) || v > 1e9 {
			return Distribution{}, fmt.Errorf("rates %q: the factor %q is not a number above zero", s, f)
		}
		return Paper.Scaled(v), nil
	}
	var bands []Band
	for part := range strings.SplitSeq(t, ",") {
		b := Band{Weight: 1}
		rates := strings.TrimSpace(part)
		if w, rest, ok := strings.Cut(rates, ":"); ok {
			num, isPercent := strings.CutSuffix(strings.TrimSpace(w), "%")
			v, err := strconv.ParseFloat(num, 64)
			if err != nil || !isPercent {
				return Distribution{}, fmt.Errorf("rates %q: weight %q: want a percentage such as 65%%", s, w)
			}
			b.Weight, rates = v/100, rest
		} else if strings.Contains(t, ",") {
			return Distribution{}, fmt.Errorf("rates %q: %q has no weight: want 65%%:4MB/s-6MB/s,…", s, rates)
		}
		lo, hi, span := strings.Cut(rates, "-")
		var err error
		if b.Lo, err = unit.ParseBandwidth(lo); err != nil {
			return Distribution{}, fmt.Errorf("rates %q: %w", s, err)
		}
		if b.Hi = b.Lo; span {
			if b.Hi, err = unit.ParseBandwidth(hi); err != nil {
				return Distribution{}, fmt.Errorf("rates %q: %w", s, err)
			}
		}
		bands = append(bands, b)
	}
	d, err := Mixture(bands...)
	if err != nil {
		return Distribution{}, fmt.Errorf("rates %q: %w", s, err)
	}
	return d, nil
}

// String prints d so that ParseDistribution reads the same rates again.
func (d Distribution) String() string {
	switch {
	case d.Unlimited():
		return "unlimited"
	case d.paper == 1:
		return "paper"
	case d.paper > 0:
		return "paper*" + strconv.FormatFloat(d.paper, 'g', -1, 64)
	}
	var parts []string
	for _, b := range d.bands {
		p := ""
		if len(d.bands) > 1 {
			p = percent(b.Weight) + ":"
		}
		p += rate(b.Lo)
		if b.Hi != b.Lo {
			p += "-" + rate(b.Hi)
		}
		parts = append(parts, p)
	}
	return strings.Join(parts, ",")
}

// Set makes *Distribution a flag value.
func (d *Distribution) Set(s string) (err error) { *d, err = ParseDistribution(s); return err }

// Type names the value in help texts.
func (d *Distribution) Type() string { return "rates" }

// MarshalText and UnmarshalText make it a string in JSON.
func (d Distribution) MarshalText() ([]byte, error)  { return []byte(d.String()), nil }
func (d *Distribution) UnmarshalText(b []byte) error { return d.Set(string(b)) }

// rate prints r without rounding, unlike unit's String: what is printed here
// is read again.
func rate(r unit.Bandwidth) string {
	if s := strconv.FormatFloat(float64(r)/1e6, 'f', -1, 64) + "MB/s"; len(s) < 16 {
		if back, err := unit.ParseBandwidth(s); err == nil && back == r {
			return s
		}
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64) + "B/s"
}

func percent(w float64) string {
	return strconv.FormatFloat(math.Round(w*1e12)/1e10, 'f', -1, 64) + "%"
}
