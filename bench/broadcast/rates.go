package main

import "github.com/freshet/freshet/unit"

// buffer is what lies in front of a node's link, in each direction.
const buffer = 512 * unit.KiB

// linkRate is a node's own link on the wire, in each direction: nodes then
// exchange at about 10 MB/s, as the paper's did.
func linkRate(scale float64) unit.Bandwidth { return 100 * unit.Mbit * unit.Bandwidth(scale) }
