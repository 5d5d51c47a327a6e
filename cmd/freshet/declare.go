package main

import (
	"slices"
	"strings"

	"github.com/freshet/freshet/unit"
)

// declared reads what --declare says of the network, for the bound that jobs are held against.
func declared(flag map[string]string, may ...string) (map[string]unit.Bandwidth, error) {
	var out map[string]unit.Bandwidth
	for what, text := range flag {
		kind, name, _ := strings.Cut(what, ".")
		if !slices.Contains(may, what) && (name == "" || !slices.Contains(may, kind+".NAME")) {
			return nil, usage("--declare %s=%s: want a rate of %s", what, text, strings.Join(may, ", "))
		}
		rate, err := unit.ParseBandwidth(text)
		if err == nil && rate <= 0 {
			return nil, usage("--declare %s=%s: want more than 0", what, text)
		}
		if err != nil {
			return nil, usage("--declare %s: %w", what, err)
		}
		if out == nil {
			out = map[string]unit.Bandwidth{}
		}
		out[what] = rate
	}
	return out, nil
}
