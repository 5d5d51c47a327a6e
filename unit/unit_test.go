package unit

import (
	"strings"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Bytes
		bad  bool
	}{
		{in: "0", want: 0}, {in: "4096", want: 4096}, {in: "17B", want: 17},
		{in: "256MiB", want: 256 * MiB}, {in: "256 MiB", want: 256 * MiB}, {in: "1.5GiB", want: 3 * GiB / 2},
		{in: "300MB", want: 300_000_000}, {in: "4K", want: 4 * KiB}, {in: "2T", want: 2 * TiB},
		{in: "", bad: true}, {in: "-1", bad: true}, {in: "1.5B", bad: true}, {in: "MiB", bad: true},
		{in: "9e30", bad: true}, {in: "NaN", bad: true}, {in: "12 parsecs", bad: true},
	} {
		got, err := ParseBytes(tt.in)
		if (err != nil) != tt.bad || got != tt.want {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d, error %v", tt.in, got, err, tt.want, tt.bad)
		}
	}
}

func TestParseBandwidth(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Bandwidth
		bad  bool
	}{
		{in: "0", want: 0}, {in: "8bit", want: 1}, {in: "1Gbit", want: 125e6}, {in: "300Mbit", want: 37.5e6},
		{in: "5MB/s", want: 5e6}, {in: "40MiB/s", want: 40 << 20}, {in: "1.5 kB/s", want: 1500},
		{in: "100", bad: true}, {in: "", bad: true}, {in: "-1Mbit", bad: true}, {in: "Inf bit", bad: true},
	} {
		got, err := ParseBandwidth(tt.in)
		if (err != nil) != tt.bad || got != tt.want {
			t.Errorf("ParseBandwidth(%q) = %v, %v; want %v, error %v", tt.in, float64(got), err, float64(tt.want), tt.bad)
		}
	}
}

// A rate that cannot be read is refused with all units that there are.
func TestRateErrorNamesUnits(t *testing.T) {
	_, err := ParseBandwidth("5 parsecs")
	for _, u := range rateSuffixes {
		if u.suffix != "KB/s" && !strings.Contains(err.Error(), " "+u.suffix) { // kB/s with a slip of the finger
			t.Errorf("%v: no %s", err, u.suffix)
		}
	}
}

func TestString(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Bytes(0).String(), "0 B"}, {Bytes(1023).String(), "1023 B"}, {(256 * MiB).String(), "256 MiB"},
		{(3 * GiB / 2).String(), "1.5 GiB"}, {(-2 * KiB).String(), "-2 KiB"},
		{Bandwidth(5e6).String(), "5 MB/s"}, {Gbit.String(), "125 MB/s"}, {Bandwidth(0).String(), "0 B/s"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
