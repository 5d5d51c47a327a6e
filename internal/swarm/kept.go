package swarm

import (
	"context"
	"errors"

	"github.com/freshet/freshet/piece"
)

// Of several objects some may be in their places here before the job, of the right versions: if one shard of a model is new,
// the others need not move again. Their pieces are like those of a node that has held all: whoever is to read one reads it from its own file,
// and who hears of its digest has it. Where a file is not what it should be its pieces are read again, as any that were read wrong. But a digest is another's word, which may be
// a lie: before a piece counts as wrong for it, it is read from its file, and the store decides.

// keeps are the pieces that are in their places already; nil: there are none.
func keeps(c Config) *piece.Set {
	var set *piece.Set
	for p := range c.Layout.Count() {
		kept := len(c.Kept) > 0
		lo, hi := c.Layout.Within(c.Layout.Span(p))
		for i := lo; i < hi && kept; i++ {
			kept = c.Kept[i] || c.Objects[i].Size == 0
		}
		if kept {
			if set == nil {
				set = piece.NewSet(c.Layout.Count())
			}
			set.Add(p)
		}
	}
	return set
}

// kept says whether a piece was in its place here before the job.
func (n *node) kept(p int) bool { return n.Members[n.Self].Held || n.keeps != nil && n.keeps.Has(p) }

// runs are the pieces of span, those that are here apart from those that are not.
func (n *node) runs(span piece.Range) (runs []piece.Range) {
	for p := span.Lo; p < span.Hi; p++ {
		if k := len(runs) - 1; k >= 0 && n.kept(p) == n.kept(p-1) {
			runs[k].Hi++
		} else {
			runs = append(runs, piece.Range{Lo: p, Hi: p + 1})
		}
	}
	return runs
}

// readRun reads pieces that are all here, or all not.
func (n *node) readRun(ctx context.Context, o order) error {
	if !n.kept(o.span.Lo) {
		return n.readStore(ctx, o)
	}
	err := n.readOwn(ctx, o, true)
	bad := new(objectError)
	if !errors.As(err, &bad) {
		return err
	}
	n.Log.Warn("a file that was here before is not what it was", "job", n.Job, "object", bad.object, "error", bad.err)
	for p := o.span.Lo; p < o.span.Hi; p++ {
		one := o
		one.span = piece.Range{Lo: p, Hi: p + 1}
		err := n.readOwn(ctx, one, true)
		if errors.As(err, &bad) {
			err = n.readStore(ctx, one)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
