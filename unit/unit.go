// Package unit holds byte sizes and transfer rates as types, and the one way
// in which Freshet reads and prints them.
//
// Sizes are written with binary prefixes (256MiB) or decimal ones (256MB);
// rates are bytes per second everywhere in the code and are printed in bits
// per second only where people expect it (links: 1Gbit) or in bytes (5MB/s).
// Decimal prefixes are SI (k = 1000), binary ones are IEC (Ki = 1024).
package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a number of bytes: a size or an offset.
type Bytes int64

// IEC multiples.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

// Bandwidth is a rate in bytes per second. Zero means "no limit" only where
// the field that holds it says so.
type Bandwidth float64

// Bandwidths in the units of network links (bits, SI) and of disks (bytes, SI).
const (
	BitPerSecond Bandwidth = 1.0 / 8
	Kbit                   = 1e3 * BitPerSecond
	Mbit                   = 1e6 * BitPerSecond
	Gbit                   = 1e9 * BitPerSecond
	Tbit                   = 1e12 * BitPerSecond
	MBps         Bandwidth = 1e6
)

var sizeSuffixes = []struct {
	suffix string
	factor float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, // as dd and rclone read them
	{"B", 1}, {"", 1},
}

// ParseBytes reads a size such as "4096", "256MiB", "1.5GiB" or "300MB".
// A bare K, M, G or T is binary. Negative, fractional-byte and unreadable
// sizes are errors that name the text.
func ParseBytes(s string) (Bytes, error) {
	t := strings.TrimSpace(s)
	for _, u := range sizeSuffixes {
		num, ok := strings.CutSuffix(t, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
		if err != nil {
			continue
		}
		b := v * u.factor
		if b < 0 {
			return 0, fmt.Errorf("size %q is negative", s)
		}
		if math.IsNaN(b) || b >= math.MaxInt64 {
			return 0, fmt.Errorf("size %q is out of range", s)
		}
		if b != math.Trunc(b) {
			return 0, fmt.Errorf("size %q is not a whole number of bytes", s)
		}
		return Bytes(b), nil
	}
	return 0, fmt.Errorf("size %q: want a number with B, KiB, MiB, GiB, TiB, kB, MB, GB or TB", s)
}

// String prints b with the largest IEC unit that keeps at least one whole
// digit, with up to two decimals: "256 MiB", "1.5 GiB", "17 B".
func (b Bytes) String() string {
	if b < 0 {
		if b == math.MinInt64 {
			return "-8388608 TiB"
		}
		return "-" + (-b).String()
	}
	switch {
	case b >= TiB:
		return decimals(float64(b)/float64(TiB)) + " TiB"
	case b >= GiB:
		return decimals(float64(b)/float64(GiB)) + " GiB"
	case b >= MiB:
		return decimals(float64(b)/float64(MiB)) + " MiB"
	case b >= KiB:
		return decimals(float64(b)/float64(KiB)) + " KiB"
	}
	return strconv.FormatInt(int64(b), 10) + " B"
}

// Set makes *Bytes a flag value.
func (b *Bytes) Set(s string) (err error) { *b, err = ParseBytes(s); return err }

// Type names the value in help texts.
func (b *Bytes) Type() string { return "size" }

var rateSuffixes = []struct {
	suffix string
	factor Bandwidth
}{
	{"kbit", Kbit}, {"Mbit", Mbit}, {"Gbit", Gbit}, {"Tbit", Tbit}, {"bit", BitPerSecond},
	{"KiB/s", 1 << 10}, {"MiB/s", 1 << 20}, {"GiB/s", 1 << 30}, {"TiB/s", 1 << 40},
	{"kB/s", 1e3}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}, {"B/s", 1},
}

// ParseBandwidth reads a rate such as "1Gbit", "300Mbit" (SI, bits per second)
// or "5MB/s", "40MiB/s" (bytes per second). "0" alone is zero; every other
// rate needs its unit, since a bare number could be bits or bytes.
func ParseBandwidth(s string) (Bandwidth, error) {
	t := strings.TrimSpace(s)
	if t == "0" {
		return 0, nil
	}
	for _, u := range rateSuffixes {
		num, ok := strings.CutSuffix(t, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
		if err != nil {
			continue
		}
		r := Bandwidth(v) * u.factor
		if r < 0 {
			return 0, fmt.Errorf("rate %q is negative", s)
		}
		if math.IsNaN(float64(r)) || math.IsInf(float64(r), 0) {
			return 0, fmt.Errorf("rate %q is out of range", s)
		}
		return r, nil
	}
	return 0, fmt.Errorf("rate %q: want a number with bit, kbit, Mbit, Gbit, Tbit (per second) or B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s", s)
}

// String prints r in SI bytes per second: "5 MB/s", "1.25 GB/s".
func (r Bandwidth) String() string {
	switch v := float64(r); {
	case v >= 1e12:
		return decimals(v/1e12) + " TB/s"
	case v >= 1e9:
		return decimals(v/1e9) + " GB/s"
	case v >= 1e6:
		return decimals(v/1e6) + " MB/s"
	case v >= 1e3:
		return decimals(v/1e3) + " kB/s"
	default:
		return decimals(v) + " B/s"
	}
}

// Bits prints r as links are: in SI bits per second, with three digits: "1 Gbit",
// "12.5 Mbit", "540 kbit".
func (r Bandwidth) Bits() string {
	b := float64(r) * 8
	unit := " bit"
	for _, next := range []string{" kbit", " Mbit", " Gbit", " Tbit"} {
		if b < 999.5 {
			break
		}
		b, unit = b/1000, next
	}
	places := 2
	switch {
	case b >= 99.95:
		places = 0
	case b >= 9.995:
		places = 1
	}
	s := strconv.FormatFloat(b, 'f', places, 64)
	if places > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s + unit
}

// Set makes *Bandwidth a flag value.
func (r *Bandwidth) Set(s string) (err error) { *r, err = ParseBandwidth(s); return err }

// Type names the value in help texts.
func (r *Bandwidth) Type() string { return "rate" }

// decimals prints v with at most two decimals and no trailing zeros.
func decimals(v float64) string {
	s := strconv.FormatFloat(v, 'f', 2, 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}
