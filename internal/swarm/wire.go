package swarm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/access"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
)

// Kinds of frames between the nodes of a swarm; README.md lays out their
// payloads. Append-only: a number never changes its meaning.
const (
	kindBitfield byte = 16 + iota
	kindHave
	kindDigests
	kindRequest
	kindCancel
	kindChoke
	kindUnchoke
	kindBlock
	kindGiveWork
	kindWorks
	kindTook
	kindDone
	kindLeave
	kindAccess
	kindGiveImports
	kindImports
	kindTookImports
	kindBusy
	kindUnheard
)

// maxPieces is what a possession set of one frame can hold.
const maxPieces = (peer.MaxFrame - 4) * 8

// maxLeave bounds the text of a leave.
const maxLeave = 512

// parseAccess reads a proof of access, all of b.
func parseAccess(b []byte) (proof []byte, err error) {
	if len(b) != access.ProofBytes {
		return nil, fmt.Errorf("proof of access of %d bytes, want %d", len(b), access.ProofBytes)
	}
	return b, nil
}

var be = binary.BigEndian

var errShort = errors.New("message is cut short")

func number(v uint32) (int, error) {
	if v > 1<<31-1 {
		return 0, fmt.Errorf("number %d is out of range", v)
	}
	return int(v), nil
}

// numbers reads k numbers from the front of b.
func numbers(b []byte, k int) (v []int, rest []byte, err error) {
	if len(b) < 4*k {
		return nil, nil, errShort
	}
	v = make([]int, k)
	for i := range v {
		if v[i], err = number(be.Uint32(b[4*i:])); err != nil {
			return nil, nil, err
		}
	}
	return v, b[4*k:], nil
}

func appendNumbers(b []byte, v ...int) []byte {
	for _, x := range v {
		b = be.AppendUint32(b, uint32(x))
	}
	return b
}

// appendBitfield: which pieces the sender has, of how many.
func appendBitfield(b []byte, s *piece.Set) []byte {
	return s.Append(appendNumbers(b, s.Len()))
}

func parseBitfield(b []byte, pieces int) (*piece.Set, error) {
	v, rest, err := numbers(b, 1)
	if err != nil {
		return nil, err
	}
	if v[0] != pieces {
		return nil, fmt.Errorf("object of %d pieces, ours has %d", v[0], pieces)
	}
	return piece.ParseSet(rest, pieces)
}

// appendHave: runs of pieces that the sender has got.
func appendHave(b []byte, rs []piece.Range) []byte {
	for _, r := range rs {
		b = appendNumbers(b, r.Lo, r.Hi)
	}
	return b
}

func parseHave(b []byte, pieces int) (rs []piece.Range, err error) {
	if len(b)%8 != 0 {
		return nil, errShort
	}
	for len(b) > 0 {
		var v []int
		if v, b, err = numbers(b, 2); err != nil {
			return nil, err
		}
		if v[0] >= v[1] || v[1] > pieces {
			return nil, fmt.Errorf("pieces %d to %d of %d", v[0], v[1], pieces)
		}
		if k := len(rs) - 1; k >= 0 && v[0] <= rs[k].Hi { // so that one message costs no more than the object has pieces
			return nil, fmt.Errorf("run of pieces from %d behind one up to %d", v[0], rs[k].Hi)
		}
		rs = append(rs, piece.Range{Lo: v[0], Hi: v[1]})
	}
	return rs, nil
}

// digest is one line of a digests message.
type digest struct {
	Piece int
	exchange.Entry
}

const digestBytes = 20

func appendDigests(b []byte, ds []digest) []byte {
	for _, d := range ds {
		b = appendNumbers(b, d.Piece, d.Reader)
		b = be.AppendUint32(b, d.Term)
		b = be.AppendUint64(b, d.Sum)
	}
	return b
}

func parseDigests(b []byte, pieces, nodes int) (ds []digest, err error) {
	if len(b)%digestBytes != 0 {
		return nil, errShort
	}
	for len(b) > 0 {
		var v []int
		if v, b, err = numbers(b, 2); err != nil {
			return nil, err
		}
		if v[0] >= pieces || v[1] >= nodes {
			return nil, fmt.Errorf("digest of piece %d by node %d, of %d and %d", v[0], v[1], pieces, nodes)
		}
		ds = append(ds, digest{v[0], exchange.Entry{Reader: v[1], Term: be.Uint32(b), Sum: be.Uint64(b[4:])}})
		b = b[12:]
	}
	return ds, nil
}

// appendRequest: blocks lo ≤ b < hi of a piece, for request and cancel.
func appendRequest(b []byte, r exchange.Request) []byte { return appendNumbers(b, r.Piece, r.Lo, r.Hi) }

func parseRequest(b []byte, l piece.Layout) (r exchange.Request, err error) {
	v, rest, err := numbers(b, 3)
	if err != nil || len(rest) > 0 {
		return r, errShort
	}
	r = exchange.Request{Piece: v[0], Lo: v[1], Hi: v[2]}
	if r.Piece >= l.Count() || r.Lo >= r.Hi || r.Hi > l.Blocks(r.Piece) {
		return r, fmt.Errorf("blocks %d to %d of piece %d do not exist", r.Lo, r.Hi, r.Piece)
	}
	return r, nil
}

// blockHeader precedes the bytes of a block.
type blockHeader struct{ Piece, Block int }

const blockHeaderBytes = 8

func appendBlockHeader(b []byte, h blockHeader) []byte { return appendNumbers(b, h.Piece, h.Block) }

// parseBlockHeader reads the header of a block frame whose payload is n bytes
// long in all; what follows must be exactly the block.
func parseBlockHeader(b []byte, n int, l piece.Layout) (h blockHeader, err error) {
	v, _, err := numbers(b, 2)
	if err != nil {
		return h, err
	}
	h = blockHeader{v[0], v[1]}
	if h.Piece >= l.Count() || h.Block >= l.Blocks(h.Piece) {
		return h, fmt.Errorf("block %d of piece %d does not exist", h.Block, h.Piece)
	}
	if _, size := blockSpan(l, h.Piece, h.Block); n != blockHeaderBytes+size {
		return h, fmt.Errorf("block %d of piece %d has %d bytes, want %d", h.Block, h.Piece, n-blockHeaderBytes, size)
	}
	return h, nil
}

// blockSpan is where a block lies in the object, as files have it.
func blockSpan(l piece.Layout, p, block int) (off int64, n int) {
	start, size := l.Block(p, block)
	return int64(start), int(size)
}

// appendGiveWork: how many works the sender wants at most, and its pace in microseconds, rounded up: who is no faster must not look so.
func appendGiveWork(b []byte, most int, p steal.Pace) []byte {
	micros := func(d time.Duration) int {
		up := d / time.Microsecond
		if d%time.Microsecond > 0 {
			up++
		}
		return int(min(max(0, up), math.MaxInt32))
	}
	return appendNumbers(b, most, micros(p.Free), micros(p.Each))
}

func parseGiveWork(b []byte) (most int, p steal.Pace, err error) {
	v, rest, err := numbers(b, 3)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes behind a question for works", len(rest))
	}
	if err != nil {
		return 0, p, err
	}
	return v[0], steal.Pace{Free: time.Duration(v[1]) * time.Microsecond, Each: time.Duration(v[2]) * time.Microsecond}, nil
}

const handBytes = 12

// inFrames cuts runs of works into such as one frame can hold behind a claimant. It yields once at least.
func inFrames(hs []steal.Hand) iter.Seq[[]steal.Hand] {
	const most = (peer.MaxFrame - 4) / handBytes
	return func(yield func([]steal.Hand) bool) {
		for len(hs) > most {
			if !yield(hs[:most]) {
				return
			}
			hs = hs[most:]
		}
		yield(hs)
	}
}

// appendWorks: runs of works that change hands, for works and, behind the claimant, for took.
func appendWorks(b []byte, hs []steal.Hand) []byte {
	for _, h := range hs {
		b = be.AppendUint32(appendNumbers(b, h.Lo, h.Hi), h.Term)
	}
	return b
}

func parseWorks(b []byte) (hs []steal.Hand, err error) {
	if len(b)%handBytes != 0 {
		return nil, errShort
	}
	for len(b) > 0 {
		var v []int
		if v, b, err = numbers(b, 2); err != nil {
			return nil, err
		}
		hs = append(hs, steal.Hand{Lo: v[0], Hi: v[1], Term: be.Uint32(b)})
		b = b[4:]
	}
	return hs, nil
}

func appendTook(b []byte, c steal.Claim) []byte {
	return appendWorks(appendNumbers(b, c.Node), c.Hands)
}

// tookFrames are the payloads that say whose some works are, of legal length.
func tookFrames(c steal.Claim) (payloads [][]byte) {
	for hs := range inFrames(c.Hands) {
		payloads = append(payloads, appendTook(nil, steal.Claim{Node: c.Node, Hands: hs}))
	}
	return payloads
}

func parseTook(b []byte) (c steal.Claim, err error) {
	v, rest, err := numbers(b, 1)
	if err != nil {
		return c, err
	}
	c.Node = v[0]
	c.Hands, err = parseWorks(rest)
	return c, err
}
