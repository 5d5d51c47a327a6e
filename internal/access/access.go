// Package access is the proof that a node may read an object itself: it knows
// what lies at a place in the object that was drawn when the job was accepted.
//
//	control plane  draws a place and a nonce for the job, and tells every node
//	node           reads that place with its own credentials: that is its secret
//	connection     each end shows HMAC-SHA-256(secret; job, nonce, place, its own name)
//	               and compares what the other end shows with its own reckoning
//
// Names are those of certificates, so nobody can show what he heard from another.
// A proof tells nothing about the secret to one that cannot guess it. It is as
// strong as the object's bytes are hard to guess: an object of zeros proves
// nothing. docs/notes/2026-11-21-proof-of-access.md says what else was
// considered.
package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

const (
	least      = 4 * unit.KiB  // of a place, if the object is as large
	leastOf    = unit.KiB      // likewise, if it is one of several, which have a place each
	most       = 64 * unit.KiB // likewise
	nonceBytes = 16
)

// ProofBytes is the length of a proof.
const ProofBytes = sha256.Size

// Challenge is the place that the nodes of a job have to read. Its zero value is none.
type Challenge struct {
	Off    unit.Bytes `json:"off"`
	Size   unit.Bytes `json:"size"`             // zero only of an empty object, whose proof is trivial
	Nonce  []byte     `json:"nonce"`            // 16 bytes, new for each job
	Places []Place    `json:"places,omitempty"` // of a job of several objects, instead of Off and Size; in their order
}

// Draw draws a challenge for an object. The place has a 65,536th of the object's
// bytes, at least 4 KiB and at most 64 KiB, so that the reading of many nodes stays
// far below what the object itself costs. Without ranges it is the beginning.
func Draw(o objstore.Object) Challenge {
	c := Challenge{Nonce: make([]byte, nonceBytes)}
	rand.Read(c.Nonce) // does not fail
	c.Off, c.Size = place(o, least)
	return c
}

// place draws one in an object, of at least so many bytes.
func place(o objstore.Object, atLeast unit.Bytes) (off, size unit.Bytes) {
	size = min(max(o.Size>>16, atLeast), most, o.Size)
	if o.Ranges && o.Size > size {
		at, err := rand.Int(rand.Reader, big.NewInt(int64(o.Size-size)+1))
		if err != nil {
			panic(err) // the system's randomness does not fail
		}
		off = unit.Bytes(at.Int64())
	}
	return off, size
}

var errImproper = errors.New("the job has no proper challenge for the proof of access: run the same release of Freshet on the control plane and on the nodes")

// check says whether c can be a challenge for an object of so many bytes.
func (c Challenge) check(size unit.Bytes) error {
	if len(c.Nonce) != nonceBytes || !proper(c.Off, c.Size, size, least) {
		return errImproper
	}
	return nil
}

// proper says whether a place lies in an object of size bytes, and is as large as one has to be.
func proper(off, n, size, atLeast unit.Bytes) bool {
	return off >= 0 && n >= min(atLeast, size) && n <= most && off <= size-n
}

// Witness is a node that has read the place of a job's challenge.
type Witness struct {
	job    string
	c      Challenge
	secret []byte
}

// Read reads the place from the store: what a node has to be able to do that
// is to get the object.
func (c Challenge) Read(ctx context.Context, job string, store objstore.Store, o objstore.Object) (*Witness, error) {
	if err := c.check(o.Size); err != nil {
		return nil, err
	}
	w := &Witness{job: job, c: c, secret: make([]byte, c.Size)}
	if c.Size == 0 {
		return w, nil
	}
	off, n, skip := c.Off, c.Size, unit.Bytes(0)
	if !o.Ranges { // one stream, from its first byte
		off, n, skip = 0, o.Size, c.Off
	}
	body, err := store.ReadRange(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if _, err := io.CopyN(io.Discard, body, int64(skip)); err != nil {
		return nil, fmt.Errorf("read %s to prove access: %w", o.Key, err)
	}
	if _, err := io.ReadFull(body, w.secret); err != nil {
		return nil, fmt.Errorf("read %s to prove access: %w", o.Key, err)
	}
	return w, nil
}

// Proof is what the node of that name shows others.
func (w *Witness) Proof(node string) []byte {
	h := hmac.New(sha256.New, w.secret)
	for _, field := range [][]byte{[]byte("freshet proof of access 1"), []byte(w.job), w.c.Nonce, []byte(node)} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(field))))
		h.Write(field)
	}
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(w.c.Off)))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(w.c.Size)))
	for _, p := range w.c.Places {
		for _, v := range []uint64{uint64(p.Object), uint64(p.Off), uint64(p.Size)} {
			h.Write(binary.BigEndian.AppendUint64(nil, v))
		}
	}
	return h.Sum(nil)
}

// Convinced says whether proof is that of the node of that name.
func (w *Witness) Convinced(node string, proof []byte) bool { return hmac.Equal(proof, w.Proof(node)) }
