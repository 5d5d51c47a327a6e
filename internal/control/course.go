package control

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/unit"
)

// checkDeclared says what is wrong with the capacities that a job declares.
func checkDeclared(declared map[string]unit.Bandwidth) error {
	const most = 1000
	if len(declared) > most {
		return fail(ErrInvalid, "%d declared rates are more than %d", len(declared), most)
	}
	for what, rate := range declared {
		site, ok := strings.CutPrefix(what, "site.")
		if what != "store" && (!ok || site == "" || len(site) > maxSelector) {
			return fail(ErrInvalid, "a job cannot declare a rate of %q: want store, or site.NAME", oneLine(what))
		}
		if !(rate > 0) {
			return fail(ErrInvalid, "the rate of %s is %v: want more than 0", what, rate)
		}
	}
	return nil
}

// noteCourse keeps how a node's part went until the job has ended.
func (d *driven) noteCourse(name string, c account.Course) {
	members := d.latest.Load().Members
	if !slices.ContainsFunc(members, func(m Member) bool { return m.Name == name }) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.courses == nil {
		d.courses = map[string]account.Course{}
	}
	d.courses[name] = c.Bounded(account.Steps(len(members)))
}

// saveCourses writes how a job went. If it cannot, only a report is the poorer for it.
func (h *Hub) saveCourses(ctx context.Context, d *driven) {
	id := d.latest.Load().ID
	d.mu.Lock()
	courses := maps.Clone(d.courses)
	d.mu.Unlock() // who reports holds up all others until it has the mutex, so nothing is packed or written under it
	if len(courses) == 0 {
		return
	}
	packed, err := packCourses(courses, int(h.store.nc.MaxPayload()))
	if err == nil {
		_, err = putOwn(ctx, h.store.courses, id, packed, 0)
	}
	if err != nil && ctx.Err() == nil {
		h.log.Warn("cannot write how a job went on its nodes", "job", id, "err", err)
	}
}

// packCourses compresses courses into a record that fits a message of limit bytes,
// with coarser time lines if need be.
func packCourses(courses map[string]account.Course, limit int) ([]byte, error) {
	for {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if err := errors.Join(json.NewEncoder(z).Encode(courses), z.Close()); err != nil {
			return nil, err
		}
		if b.Len()*4/3+1024 <= limit { // as JSON has it, and what a message has around it
			return b.Bytes(), nil
		}
		thinner, lines := map[string]account.Course{}, false
		for name, c := range courses {
			lines = lines || len(c.Store) > 1 || len(c.Do) > 1
			thinner[name] = c.Thinner()
		}
		if !lines {
			return nil, fmt.Errorf("%d bytes do not fit a message of %d", b.Len(), limit)
		}
		courses = thinner
	}
}

// maxCourses bounds what is unpacked, in bytes.
const maxCourses = 64 << 20

func unpackCourses(packed []byte) (map[string]account.Course, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	var courses map[string]account.Course
	err = json.NewDecoder(io.LimitReader(z, maxCourses)).Decode(&courses)
	return courses, err
}

// courses are what saveCourses wrote of a job, packed; none if it has not ended,
// or its nodes told nothing.
func (h *Hub) courses(ctx context.Context, prefix string) (packed []byte, err error) {
	id, _, err := h.find(prefix)
	if err != nil {
		return nil, err
	}
	_, err = get(ctx, h.store.courses, id, &packed)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		err = nil
	}
	return packed, err
}
