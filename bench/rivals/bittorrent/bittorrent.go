// Package bittorrent is what experiments with BitTorrent have in common: how a
// torrent is made, where peers meet, and how clients are called.
package bittorrent

import (
	_ "embed"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/freshet/freshet/unit"
)

// TrackerPort is where a Tracker listens.
const TrackerPort = 6969

// Make is the command that makes a torrent of what lies at path, a file or a directory, in pieces whose size is a power of two.
// web is the URL at which a store has it, as web seed (BEP 19), or empty.
func Make(path string, piece unit.Bytes, announce, web, torrent string) []string {
	args := []string{"mktorrent", "-d", "-a", announce, "-l", strconv.Itoa(bits.Len64(uint64(piece)) - 1), "-o", torrent}
	if web != "" {
		args = append(args, "-w", web)
	}
	return append(args, path)
}

// Piece is the size of the pieces of a torrent of so many bytes, as most programs would choose it.
func Piece(size unit.Bytes) unit.Bytes {
	switch {
	case size >= 128*unit.MiB:
		return unit.MiB
	case size >= 64*unit.MiB:
		return 512 * unit.KiB
	}
	return 256 * unit.KiB
}

// Aria2 is the command line of the download tool of that name, which downloads a torrent into save, calls hook
// when it has all, and seeds until it is ended. One that seeds finds all in save. Order is that in which it asks a web seed for pieces; empty: its default.
func Aria2(torrent, save, hook, order string, seeds bool) string {
	more := ""
	if order != "" {
		more = "--stream-piece-selector=" + order + " "
	}
	if seeds {
		more += "--check-integrity --allow-overwrite "
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
// when it has all, and seeds until it is ended. Words are "tuned", "seed" and "wait=FILE": see there.
func Libtorrent(program, torrent, save, mark, addr, words string) string {
	return fmt.Sprintf("python3 -X faulthandler %s %s %s %s %s%s", program, torrent, save, mark, addr, words)
}

// LibtorrentPiece is the size of pieces with which "tuned" took the least processor time of those that were tried, and was as fast as the fastest but for what runs differ by; bench/rivals has them.
const LibtorrentPiece = 256 * unit.KiB

// LibtorrentTuning says what "tuned" sets.
const LibtorrentTuning = "TCP alone, no limit of slots, one piece a web request and two under way, rarest first from the start, queues of a second; all of it in bittorrent/libtorrent.py"
