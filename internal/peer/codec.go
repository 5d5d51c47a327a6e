package peer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"

	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/piece"
)

// Version is the version of the protocol. An end that meets another one says
// so and closes: both ends of a cluster are to be of the same version.
const Version = 3

// MaxFrame is the longest payload of a frame: a block and what a message needs
// to say about it.
const MaxFrame = int(piece.BlockSize) + 64

const (
	magic        = "FRSH"
	prefixBytes  = 8 // of every hello, of every version
	helloBytes   = prefixBytes + 132
	maxName      = 63
	maxJob       = 64
	headerBytes  = 8
	refusalBytes = 4   // of a refusal's payload, before its text
	maxText      = 512 // of a refusal
)

// Kinds of frames that are this package's own. All others are the users'.
const (
	KindPing    byte = 0   // keeps the connection alive; empty
	kindWelcome byte = 254 // verdict on a hello: go on; empty
	kindRefusal byte = 255 // the sender closes, and why
)

// hello is what each end says first.
type hello struct {
	Name string // of the node that speaks; must be its certificate's
	Job  string
}

// Append appends the hello as README.md lays it out.
func (h hello) Append(b []byte) []byte {
	b = appendPrefix(b, Version, helloBytes-prefixBytes)
	b = append(b, 0, 0, byte(len(h.Name)), byte(len(h.Job)))
	n := len(b)
	b = append(b, make([]byte, 64+64)...)
	copy(b[n:n+64], h.Name)
	copy(b[n+64:], h.Job)
	return b
}

func appendPrefix(b []byte, version, length uint16) []byte {
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint16(b, version)
	return binary.BigEndian.AppendUint16(b, length)
}

// VersionError says that the other end speaks another version of the protocol.
type VersionError struct{ Theirs, Ours int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the other end speaks version %d of the protocol between nodes, we speak version %d: run the same release of Freshet on both", e.Theirs, e.Ours)
}

var errNotFreshet = errors.New("the other end does not speak the protocol between nodes")

// parsePrefix reads the first 8 bytes of a hello, which are the same in every
// version. The error is a *VersionError if the version is another one.
func parsePrefix(b []byte) (length int, err error) {
	if len(b) < prefixBytes {
		return 0, io.ErrUnexpectedEOF
	}
	if string(b[:4]) != magic {
		return 0, errNotFreshet
	}
	if v := binary.BigEndian.Uint16(b[4:]); v != Version {
		return 0, &VersionError{Theirs: int(v), Ours: Version}
	}
	if n := binary.BigEndian.Uint16(b[6:]); n != helloBytes-prefixBytes {
		return 0, fmt.Errorf("hello: %d bytes announced, want %d", n, helloBytes-prefixBytes)
	}
	return helloBytes - prefixBytes, nil
}

// parseHello reads a hello from the front of b and says how long it was.
func parseHello(b []byte) (h hello, n int, err error) {
	if _, err := parsePrefix(b); err != nil {
		return hello{}, 0, err
	}
	if len(b) < helloBytes {
		return hello{}, 0, io.ErrUnexpectedEOF
	}
	b = b[prefixBytes:helloBytes]
	if b[0] != 0 || b[1] != 0 {
		return hello{}, 0, errors.New("hello: reserved bits are set")
	}
	field := func(f []byte, n byte) (string, bool) {
		if int(n) > len(f) || bytes.IndexFunc(f[n:], func(r rune) bool { return r != 0 }) >= 0 {
			return "", false
		}
		return string(f[:n]), true
	}
	var ok1, ok2 bool
	h.Name, ok1 = field(b[4:68], b[2])
	h.Job, ok2 = field(b[68:132], b[3])
	if !ok1 || !ok2 {
		return hello{}, 0, errors.New("hello: name or job is not padded with zeros")
	}
	if err := pki.CheckName(h.Name); err != nil {
		return hello{}, 0, fmt.Errorf("hello: %w", err)
	}
	if err := CheckJob(h.Job); err != nil {
		return hello{}, 0, fmt.Errorf("hello: %w", err)
	}
	return h, helloBytes, nil
}

// header precedes every frame's payload.
type header struct {
	Kind byte
	Len  int // of the payload: at most MaxFrame
}

// Append appends the header as README.md lays it out.
func (h header) Append(b []byte) []byte {
	b = append(b, h.Kind, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, uint32(h.Len))
}

// parseHeader reads a frame's header from the front of b.
func parseHeader(b []byte) (h header, n int, err error) {
	if len(b) < headerBytes {
		return header{}, 0, io.ErrUnexpectedEOF
	}
	if b[1] != 0 || b[2] != 0 || b[3] != 0 {
		return header{}, 0, errors.New("frame: reserved bits are set")
	}
	length := binary.BigEndian.Uint32(b[4:])
	if length > uint32(MaxFrame) {
		return header{}, 0, fmt.Errorf("frame: %d bytes announced, at most %d are allowed", length, MaxFrame)
	}
	switch b[0] {
	case KindPing, kindWelcome:
		if length != 0 {
			return header{}, 0, fmt.Errorf("frame of kind %d: %d bytes announced, want none", b[0], length)
		}
	case kindRefusal:
		if length < refusalBytes || length > refusalBytes+maxText {
			return header{}, 0, fmt.Errorf("refusal: %d bytes announced, want %d to %d", length, refusalBytes, refusalBytes+maxText)
		}
	}
	return header{Kind: b[0], Len: int(length)}, headerBytes, nil
}

// Code is the reason of a refusal. Codes cross the wire: the list only grows at
// its end.
type Code uint16

// The reasons.
const (
	Other       Code = 1  // see the text
	OtherVer    Code = 2  // the versions of the protocol differ
	WrongName   Code = 3  // hello and certificate disagree, or the caller wanted somebody else
	UnknownJob  Code = 4  // the job is not known here, not yet or no longer
	Busy        Code = 5  // try later
	BadFrame    Code = 6  // what was sent cannot be understood
	NotANode    Code = 7  // the certificate is not a node's
	ShutDown    Code = 8  // the process ends
	Misbehaved  Code = 9  // what was sent is understood and wrong, such as a piece that does not match its digest
	Removed     Code = 10 // the caller was removed from the cluster
	lastOfCodes      = Removed
)

var codeText = [...]string{
	Other: "refused", OtherVer: "other version", WrongName: "wrong name", UnknownJob: "unknown job", Busy: "busy",
	BadFrame: "not understood", NotANode: "not a node", ShutDown: "shutting down", Misbehaved: "misbehaved", Removed: ErrRemoved.Error(),
}

func (c Code) String() string {
	if c >= 1 && c <= lastOfCodes {
		return codeText[c]
	}
	return fmt.Sprintf("reason %d", uint16(c))
}

// Refused is what a peer told us as it refused or closed a connection. The
// text is the peer's own, bounded and made printable; the name is certified.
type Refused struct {
	Peer string // the node that refused
	Code Code   // one that a newer version added prints as its number
	Text string
}

func (e *Refused) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s says: %v", e.Peer, e.Code)
	}
	return fmt.Sprintf("%s says: %v: %s", e.Peer, e.Code, e.Text)
}

// appendRefusal appends the payload of a refusal; text is made printable and cut to fit.
func appendRefusal(b []byte, c Code, text string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(c))
	b = append(b, 0, 0)
	return append(b, Printable(text, maxText)...)
}

// parseRefusal reads the payload of a refusal, all of b. The text is the
// sender's and not yet fit to be shown.
func parseRefusal(b []byte) (c Code, text string, err error) {
	if len(b) < refusalBytes {
		return 0, "", io.ErrUnexpectedEOF
	}
	if len(b) > refusalBytes+maxText {
		return 0, "", fmt.Errorf("refusal of %d bytes is too long", len(b))
	}
	c = Code(binary.BigEndian.Uint16(b))
	if b[2] != 0 || b[3] != 0 || c == 0 {
		return 0, "", errors.New("refusal: reserved bits are set or there is no reason")
	}
	return c, string(b[refusalBytes:]), nil
}

// Printable is s fit for a line of a log, a record or a terminal, whoever
// wrote it: a run of white space is one space, what else could disturb is a question mark,
// and what is longer than most bytes is cut, and ends in "…" if that has room.
func Printable(s string, most int) string {
	const more = "…"
	b := make([]byte, 0, min(len(s), most))
	gap := ""
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			if len(b) > 0 {
				gap = " "
			}
			continue
		case r == utf8.RuneError || !unicode.IsPrint(r):
			r = '?'
		}
		if len(b)+len(gap)+utf8.RuneLen(r) > most {
			if most < len(more) {
				break
			}
			for len(b)+len(more) > most {
				_, n := utf8.DecodeLastRune(b)
				b = b[:len(b)-n]
			}
			return string(append(b, more...))
		}
		b = append(b, gap...)
		b = utf8.AppendRune(b, r)
		gap = ""
	}
	return string(b)
}
