// Package bittorrent is what experiments with BitTorrent have in common: how a
// torrent is made, where peers meet, and how clients are called.
package bittorrent

import (
	_ "embed"
	"fmt"
	"strconv"

	"github.com/freshet/freshet/unit"
)

// TrackerPort is where a Tracker listens.
const TrackerPort = 6969

// Make is the command that makes a torrent of what lies at path, a file or a directory.
// web is the URL at which a store has it, as web seed (BEP 19), or empty.
func Make(path string, size unit.Bytes, announce, web, torrent string) []string {
	args := []string{"mktorrent", "-d", "-a", announce, "-l", strconv.Itoa(pieceBits(size)), "-o", torrent}
	if web != "" {
		args = append(args, "-w", web)
	}
	return append(args, path)
}

// pieceBits is the size of a torrent's pieces, as a power of two.
func pieceBits(size unit.Bytes) int {
	switch {
	case size >= 128*unit.MiB:
		return 20
	case size >= 64*unit.MiB:
		return 19
	}
	return 18
}

// Aria2 is the command line of the download tool of that name, which downloads a torrent into save, calls hook
// when it has all, and seeds until it is ended. One that seeds finds all in save.
func Aria2(torrent, save, hook string, seeds bool) string {
	more := ""
	if seeds {
		more = "--check-integrity --allow-overwrite "
	}
	return fmt.Sprintf("aria2c %s--dir=%s --seed-ratio=0 --bt-max-peers=0 --bt-request-peer-speed-limit=0 --file-allocation=none --enable-dht=false --enable-dht6=false --bt-enable-lpd=false "+
		"--disable-ipv6 --listen-port=6881 --follow-torrent=mem --no-conf --quiet --summary-interval=0 --on-bt-download-complete=%s %s", more, save, hook, torrent)
}

// Aria2Tuning says what is set there.
const Aria2Tuning = "no limit of peers, none asked for by how slow it is, files not allocated beforehand"

// LibtorrentProgram drives the library of that name; it is for Python.
//
//go:embed libtorrent.py
var LibtorrentProgram []byte

// Libtorrent is the command line of program, which has to hold LibtorrentProgram: it downloads a torrent into save, makes mark
// when it has all, and seeds until it is ended. Words are "tuned" and "seed": see there.
func Libtorrent(program, torrent, save, mark, addr, words string) string {
	return fmt.Sprintf("python3 -X faulthandler %s %s %s %s %s%s", program, torrent, save, mark, addr, words)
}

// LibtorrentTuning says what "tuned" sets.
const LibtorrentTuning = "TCP alone, no limit of slots, one piece a web request and two under way, rarest first from the start, queues of a second; all of it in bittorrent/libtorrent.py"
