package control

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/objstore"
)

// What a caller branches on, on either side of the wire.
var (
	ErrInvalid      = errors.New("invalid")             // the request makes no sense as it stands
	ErrNoSuchJob    = errors.New("no such job")         //
	ErrNoSuchNode   = errors.New("no such node")        // a name that is not registered, or a selector that matches nothing
	ErrRefused      = errors.New("refused")             // not allowed, or not now
	ErrConflict     = errors.New("conflict")            // another job is writing to the same place
	ErrDown         = errors.New("node is down")        //
	ErrEnded        = errors.New("job has ended")       //
	ErrTokenUnknown = errors.New("token unknown")       // or its secret is wrong
	ErrTokenExpired = errors.New("token expired")       //
	ErrTokenUsed    = errors.New("token used up")       //
	ErrNameTaken    = errors.New("name taken")          //
	ErrUnreachable  = errors.New("node unreachable")    // the hub cannot dial the address that a node advertises
	ErrRemoved      = errors.New("node was removed")    // its certificate is no longer accepted
	ErrNoRecording  = errors.New("no recording")        // the job kept none on that node
	ErrBusy         = errors.New("control plane busy")  //
	ErrUnavailable  = errors.New("control plane ended") // it is shutting down, or its records cannot be written
	ErrExpired      = errors.New("certificate expired") // ours: only a token helps
	ErrNoSuchToken  = errors.New("no such token")       //
)

// kinds are the numbers of errors on the wire. Append only.
var kinds = []error{
	1:  ErrInvalid,
	2:  ErrNoSuchJob,
	3:  ErrNoSuchNode,
	4:  ErrRefused,
	5:  ErrConflict,
	6:  ErrDown,
	7:  ErrEnded,
	8:  ErrTokenUnknown,
	9:  ErrTokenExpired,
	10: ErrTokenUsed,
	11: ErrNameTaken,
	12: ErrUnreachable,
	13: ErrRemoved,
	14: ErrNoRecording,
	15: ErrBusy,
	16: ErrUnavailable,
	17: objstore.ErrNotExist,
	18: objstore.ErrDenied,
	19: objstore.ErrChanged,
	20: objstore.ErrNoRange,
	21: context.DeadlineExceeded,
	22: context.Canceled,
	23: ErrExpired,
	24: ErrNoSuchToken,
}

// wireError is an error of one of the kinds with a text of its own: one line that
// says what, where and what to do. The text does not repeat the kind's.
type wireError struct {
	kind error // may be nil
	text string
}

func (e *wireError) Error() string { return e.text }
func (e *wireError) Unwrap() error { return e.kind }

// fail makes an error of that kind.
func fail(kind error, format string, args ...any) error {
	return &wireError{kind: kind, text: fmt.Sprintf(format, args...)}
}

// maxErrorText bounds an error's text on the wire and in a record.
const maxErrorText = 900

// encodeError is err as "number text".
func encodeError(err error) string {
	n := 0
	for i, k := range kinds {
		if k != nil && errors.Is(err, k) {
			n = i
			break
		}
	}
	return strconv.Itoa(n) + " " + oneLine(err.Error())
}

// decodeError reads what encodeError wrote. A number that a newer hub knows
// and we don't leaves the text.
func decodeError(s string) error {
	num, text, _ := strings.Cut(s, " ")
	n, err := strconv.Atoi(num)
	if err != nil {
		return fmt.Errorf("unreadable error from the other end: %q", oneLine(s))
	}
	e := &wireError{text: oneLine(text)}
	if n > 0 && n < len(kinds) {
		e.kind = kinds[n]
	}
	if e.text == "" {
		e.text = "the other end gave no reason"
	}
	return e
}

// oneLine is s as it may stand in an error or a record.
func oneLine(s string) string { return peer.Printable(s, maxErrorText) }
