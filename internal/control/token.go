package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
)

// TokenView is a token as the control plane knows it. Nobody can be told its
// secret again: only a hash of that is kept.
type TokenView struct {
	ID      string    `json:"id"`
	Made    time.Time `json:"made"`
	Expires time.Time `json:"expires"`
	Left    int       `json:"uses_left"`
	Used    time.Time `json:"last_used,omitzero"`     // when the last node joined with it
	UsedBy  string    `json:"last_used_by,omitempty"` // that node's name
}

func (r tokenRecord) view(id string) TokenView {
	return TokenView{ID: id, Made: r.Made, Expires: r.Expires, Left: r.Left, Used: r.Used, UsedBy: r.UsedBy}
}

// tokens are all that are remembered: a day longer than they are good.
func (h *Hub) tokens(ctx context.Context) ([]TokenView, error) {
	list := []TokenView{}
	err := all(ctx, h.store.tokens, func(id string, value []byte, _ uint64) {
		var r tokenRecord
		if json.Unmarshal(value, &r) == nil {
			list = append(list, r.view(id))
		}
	})
	if err != nil {
		return nil, fail(ErrUnavailable, "cannot read the tokens' records: %s", oneLine(err.Error()))
	}
	slices.SortFunc(list, func(a, b TokenView) int {
		return cmp.Or(b.Made.Compare(a.Made), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// withdrawToken forgets the token of that ID, or of the only ID that begins
// so. Nobody can join with it from then on.
func (h *Hub) withdrawToken(ctx context.Context, prefix string) (TokenView, error) {
	list, err := h.tokens(ctx)
	if err != nil {
		return TokenView{}, err
	}
	var found []TokenView
	for _, t := range list {
		if prefix != "" && strings.HasPrefix(t.ID, strings.ToLower(prefix)) {
			found = append(found, t)
		}
	}
	switch {
	case len(found) == 0:
		return TokenView{}, fail(ErrNoSuchToken, "no token %q: \"freshet token list\" shows those that there are", peer.Printable(prefix, 40))
	case len(found) > 1:
		return TokenView{}, fail(ErrInvalid, "%q is the beginning of several tokens' IDs: give more of it", peer.Printable(prefix, 40))
	}
	if err := drop(ctx, h.store.tokens, found[0].ID); err != nil {
		return TokenView{}, fail(ErrUnavailable, "cannot withdraw token %s; try again: %s", found[0].ID, oneLine(err.Error()))
	}
	h.log.Info("token withdrawn", "token", found[0].ID)
	return found[0], nil
}

// takeToken takes a use of a token for a node, by compare-and-set, so that a
// token for one use cannot be used twice at the same moment. giveBack is for
// the case that the node does not get in after all; if it fails a use is lost,
// never won.
func (h *Hub) takeToken(ctx context.Context, id string, secret pki.Secret, name string) (giveBack func(), err error) {
	var before tokenRecord
	err = h.changeToken(ctx, id, func(r *tokenRecord) error {
		now := time.Now().UTC()
		switch {
		case !pki.SecretMatches(r.Hash, secret): // no word on whether the ID exists
			return errTokenUnknown
		case now.After(r.Expires):
			return fail(ErrTokenExpired, "token expired at %s; make a new one with \"freshet token\"", r.Expires.Format(time.RFC3339))
		case r.Left < 1:
			return fail(ErrTokenUsed, "token has been used up; make a new one with \"freshet token\" (--uses N for several nodes)")
		}
		before = *r
		r.Left--
		r.Used, r.UsedBy = now, name
		return nil
	})
	if err != nil {
		return nil, err
	}
	return func() {
		h.changeToken(ctx, id, func(r *tokenRecord) error {
			r.Left++
			if r.UsedBy == name {
				r.Used, r.UsedBy = before.Used, before.UsedBy
			}
			return nil
		})
	}, nil
}

var errTokenUnknown = fail(ErrTokenUnknown, "token is unknown to this cluster; make a new one with \"freshet token\"")

// changeToken changes a token's record, unless change returns an error. Only a
// record that is there is changed: one that was withdrawn stays away.
func (h *Hub) changeToken(ctx context.Context, id string, change func(*tokenRecord) error) error {
	for {
		var r tokenRecord
		rev, err := get(ctx, h.store.tokens, id, &r)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			return errTokenUnknown
		case err != nil:
			return fail(ErrUnavailable, "cannot read the token's record; try again")
		}
		if err := change(&r); err != nil {
			return err
		}
		_, err = put(ctx, h.store.tokens, id, r, rev)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errChangedByOther) {
			return fail(ErrUnavailable, "cannot write the token's record; try again")
		}
	}
}
