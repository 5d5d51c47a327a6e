package freshet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/freshet/freshet/internal/access"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/landing"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/open"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// What a job of several objects asks of a node beside what one of one does. docs/notes/2026-11-21-many-files.md says
// why it is as it is.

// lookAtOnce is how many objects are looked at at the same moment, each over a connection of its own, which is as many as are kept
// for a store (httpwire): 10,000 that take it three requests of 50 ms each are six seconds.
const lookAtOnce = 256

// How many objects of a job its nodes hold against what they were told of them: lookedAtByAll all nodes together, so that what that asks of the store
// does not grow with their number, of which one looks at no more than lookedAtByOne. Where the control plane does not say how many nodes there are, a node takes
// them for unknownNodes. In Amazon's S3, of whose requests a prefix takes 5,500 a second, 1,024 looks of three requests take 0.6 s.
const (
	lookedAtByAll = 1024
	lookedAtByOne = 64
	unknownNodes  = 256
)

// lookWithin is how long a node tries to look at them, while somebody waits for the job to begin.
const lookWithin = 3 * time.Second

// hintWithin is what an answer that is known may be late for.
const hintWithin = 2 * time.Second

// mostNames is how many names below a prefix are looked through: a listing may have no end, and hardly any of it be objects that can be used.
const mostNames = 4 * control.MaxFiles

// listed are the objects below a prefix, without what some programs put where a directory would be. It ends with an error after mostNames.
func listed(ctx context.Context, store objstore.Store, prefix string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		names := 0
		for e, err := range store.List(ctx, prefix) {
			if names++; err == nil && names > mostNames {
				err = objstore.Permanent(fmt.Errorf("more than %d names lie below %s: name a prefix with fewer below it", mostNames, prefix))
			}
			if err != nil {
				yield(objstore.Entry{}, err)
				return
			}
			if e.Key != prefix && !strings.HasSuffix(e.Key, "/") && !yield(e, nil) {
				return
			}
		}
	}
}

// list says what lies below a prefix now.
func (w *worker) list(ctx context.Context, store objstore.Store, prefix string, spec control.Spec) (control.Source, error) {
	var files control.Files
	for e, err := range listed(ctx, store, prefix) {
		if err != nil {
			return control.Source{}, err
		}
		if files = append(files, objstore.Object{Key: strings.TrimPrefix(e.Key, prefix)}); len(files) > control.MaxFiles {
			break
		}
	}
	if len(files) == 0 {
		return control.Source{}, fmt.Errorf("nothing lies below %s: %w", open.Redact(spec.Source), objstore.ErrNotExist)
	}
	if err := files.Check(); err != nil {
		return control.Source{}, err
	}
	if local(spec) {
		if err := notOursBelow(strings.TrimPrefix(spec.Source, "file://"), files); err != nil {
			return control.Source{}, err
		}
	}
	err := each(ctx, len(files), func(ctx context.Context, i int) error {
		name := files[i].Key
		o, err := store.Stat(ctx, prefix+name)
		switch {
		case err != nil:
			return err
		case !o.Pinned() && !spec.Unpinned:
			return objstore.Permanent(fmt.Errorf("%s has neither an ETag nor a date, so that a change during the broadcast could not be noticed; --unpinned takes it all the same", below(spec, name)))
		case !o.Ranges:
			return objstore.Permanent(fmt.Errorf("%s cannot be read in ranges, so that it cannot be one of several: broadcast it by itself", below(spec, name)))
		}
		o.Key = name
		files[i] = o
		return nil
	})
	if err != nil {
		return control.Source{}, err
	}
	files.Sort()
	return control.Source{Object: files.Whole(prefix), Files: files}, nil
}

// each calls f for all i below n, several at a time, until one fails.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(lookAtOnce)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return f(ctx, i) })
	}
	return g.Wait()
}

// notOursBelow is notOurs for all files below a directory.
func notOursBelow(top string, files control.Files) error {
	for _, o := range files { // each: a symbolic link may lead anywhere
		if err := notOurs(filepath.Join(top, filepath.FromSlash(o.Key))); err != nil {
			return objstore.Permanent(err)
		}
	}
	return nil
}

// firstBelow is the key of an object below a prefix that has so many bytes.
func firstBelow(ctx context.Context, store objstore.Store, prefix string, least unit.Bytes) (string, error) {
	for e, err := range listed(ctx, store, prefix) {
		if err != nil || e.Size >= least {
			return e.Key, err
		}
	}
	if least > 0 {
		return "", fmt.Errorf("no object of %v or more lies below %s: %w", least, prefix, objstore.ErrNotExist)
	}
	return "", fmt.Errorf("nothing lies below %s: %w", prefix, objstore.ErrNotExist)
}

// hint adds to the error of a source that is not there what may be meant by it.
func hint(ctx context.Context, store objstore.Store, key string, spec control.Spec, err error) error {
	if strings.HasPrefix(spec.Source, "http") || !errors.Is(err, objstore.ErrNotExist) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hintWithin)
	defer cancel()
	if first, ferr := firstBelow(ctx, store, key+"/", 0); ferr != nil || first == "" {
		return err
	}
	return fmt.Errorf("%w; but there are objects below it, which a slash at the end of the source means", err)
}

// objects are a job's objects as this node sees them: with their keys in the store and, of a file: source of which this node
// has a copy of its own, with their versions here. Without look these are left as they are.
func (w *worker) objects(ctx context.Context, store objstore.Store, prefix string, job control.Job, look bool) ([]objstore.Object, error) {
	own := slices.Clone([]objstore.Object(job.Files))
	if len(own) == 0 {
		return nil, fmt.Errorf("job %s does not say which files lie below %s: run the same release of Freshet on the control plane and on the nodes", job.ID, open.Redact(job.Spec.Source))
	}
	for i := range own {
		own[i].Key = prefix + own[i].Key
	}
	if !look || !local(job.Spec) {
		return own, nil
	}
	if err := notOursBelow(strings.TrimPrefix(job.Spec.Source, "file://"), job.Files); err != nil {
		return nil, err
	}
	return own, each(ctx, len(own), func(ctx context.Context, i int) error {
		o, err := w.own(ctx, store, own[i].Key, job, own[i], below(job.Spec, job.Files[i].Key))
		own[i].Version = o.Version
		return err
	})
}

// witnessAll is witness for a job of several objects.
func (w *worker) witnessAll(ctx context.Context, store objstore.Store, prefix string, job control.Job) (witness *access.Witness, err error) {
	own, err := w.objects(ctx, store, prefix, job, true)
	if err != nil {
		return nil, err
	}
	if !job.Spec.ShareAccess { // first: what the looks meet in the store is not to keep it waiting
		if witness, err = job.Challenge.ReadFrom(ctx, job.ID, store, own); err != nil {
			return nil, err
		}
	}
	if local(job.Spec) { // all have been looked at
		return witness, nil
	}
	return witness, w.sample(ctx, store, own, job)
}

// looks is how many of a job's objects a node draws of those that it looks at.
func looks(nodes int) int {
	return min(max(lookedAtByAll/cmp.Or(nodes, unknownNodes), 1), lookedAtByOne)
}

// sample holds some of a job's objects against what the job says of them, others than other nodes do: all of thousands on each node would
// cost the store more than the object. One that the store does not show in time, or now, counts as one that was not drawn: no node is to fail because all
// nodes look. Whoever was asked what the source is cannot say so for the store; docs/security.md says what a member gains that keeps the store busy. With
// Spec.ShareAccess, where there is no challenge, the first one shows whether this node may read.
func (w *worker) sample(ctx context.Context, store objstore.Store, own []objstore.Object, job control.Job) error {
	drawn := rand.Perm(len(own))[:min(len(own), looks(job.NodeCount))]
	look := func(ctx context.Context, i int) error {
		_, err := w.own(ctx, store, own[i].Key, job, own[i], below(job.Spec, job.Files[i].Key))
		return err
	}
	if job.Spec.ShareAccess {
		if err := look(ctx, drawn[0]); err != nil {
			return err
		}
		drawn = drawn[1:]
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	return each(ctx, len(drawn), func(ctx context.Context, k int) error {
		err := look(ctx, drawn[k])
		if !objstore.Temporary(err) {
			return err
		}
		w.log.Debug("an object of the job was not looked at again", "job", job.ID, "key", open.Redact(own[drawn[k]].Key), "err", err)
		return nil
	})
}

// below is what a file is called in what people read.
func below(spec control.Spec, name string) string { return name + " of " + open.Redact(spec.Source) }

// treeFiles are a job's files as they land.
func treeFiles(job control.Job) (files []landing.TreeFile) {
	for _, o := range job.Files {
		files = append(files, landing.TreeFile{Name: o.Key, Size: o.Size, Version: o.Version})
	}
	return files
}

// keptBytes are those of the files that a node has already; held says so by file.
func keptBytes(job control.Job, held []bool) (n unit.Bytes) {
	for i, kept := range held {
		if kept {
			n += job.Files[i].Size
		}
	}
	return n
}

// keptSet says in 16 letters which of the files a node has already, of which empty ones do not count: nodes that have the same say the same. It is
// empty if there are none.
func keptSet(job control.Job, held []bool) string {
	if keptBytes(job, held) == 0 {
		return ""
	}
	which := make([]byte, len(held))
	for i, kept := range held {
		if kept && job.Files[i].Size > 0 {
			which[i] = 1
		}
	}
	sum := sha256.Sum256(which)
	return hex.EncodeToString(sum[:8])
}

// commonPart is the size of a piece of which parts of all files can be made, where the store's checksums are per part; zero: there are none.
func commonPart(files control.Files) (part unit.Bytes) {
	for _, o := range files {
		for a, b := part, o.Checksum.Part; ; a, b = b, a%b {
			if b == 0 {
				part = a
				break
			}
		}
	}
	return part
}

// cutFiles is Layout for a job of several.
func cutFiles(job Job) piece.Layout {
	var sizes []unit.Bytes
	for _, o := range job.Files {
		sizes = append(sizes, o.Size)
	}
	return piece.Cut(sizes, cmp.Or(job.Spec.Piece, piece.DefaultSize(job.Object.Size, commonPart(job.Files))))
}

// sha256Of is the SHA-256 of a job's file, or of all of several.
func sha256Of(f io.ReaderAt, job Job) (string, error) {
	if job.Spec.Several() {
		return digestAll(f, job)
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, int64(job.Object.Size))); err != nil {
		return "", fmt.Errorf("read it back: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// digestAll is the SHA-256 of what "sha256sum" prints for the files in the order of their names, each with a digest of its
// own: one line says whether two directories are alike.
func digestAll(f io.ReaderAt, job Job) (string, error) {
	layout, order := cutFiles(job), make([]int, len(job.Files))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(job.Files[a].Key, job.Files[b].Key) })
	all := sha256.New()
	for _, i := range order {
		off, size := layout.Object(i)
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(f, int64(off), int64(size))); err != nil {
			return "", fmt.Errorf("read %s back: %w", job.Files[i].Key, err)
		}
		fmt.Fprintf(all, "%x  %s\n", h.Sum(nil), job.Files[i].Key)
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}
