package control

import (
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// Bounds of a Spec, so that a record stays a record.
const (
	maxSource    = 4096
	maxDest      = 4096
	maxSelectors = 10_000
	maxSelector  = 256
	maxPiece     = 1 * unit.GiB
)

// signatures are parameters of presigned URLs. A job's record is readable to
// every admin and node, so it is no place for them.
var signatures = []string{"x-amz-signature", "x-amz-credential", "x-amz-security-token", "x-goog-signature", "signature", "sig"}

// check completes s with what was left to us and says what is wrong with it.
// No error repeats a source that might hold a secret.
func (s *Spec) check() error {
	if err := checkSource(s.Source); err != nil {
		return err
	}
	switch {
	case s.Dest == "":
		return fail(ErrInvalid, "no destination: want an absolute path, the same on every node")
	case len(s.Dest) > maxDest:
		return fail(ErrInvalid, "destination of %d characters is too long", len(s.Dest))
	case strings.ContainsFunc(s.Dest, unicode.IsControl):
		return fail(ErrInvalid, "destination %q holds a control character", s.Dest)
	case !filepath.IsAbs(s.Dest):
		return fail(ErrInvalid, "destination %q is not absolute: it names the same file on every node", s.Dest)
	case strings.HasSuffix(s.Dest, "/") && !s.Several():
		return fail(ErrInvalid, "destination %q is a directory: name the file", s.Dest)
	}
	s.Dest = filepath.Clean(s.Dest)
	if s.Algorithm == "" {
		s.Algorithm = steal.Default
	}
	if !slices.Contains(steal.Algorithms, s.Algorithm) {
		return fail(ErrInvalid, "algorithm %q: want %s", oneLine(s.Algorithm), strings.Join(steal.Algorithms, ", "))
	}
	switch {
	case s.ShareAccess && s.Algorithm == steal.Flat:
		return fail(ErrInvalid, "--share-access with --algorithm flat, where every node reads the source itself: leave one of them out")
	case s.Piece < 0 || s.Piece > maxPiece:
		return fail(ErrInvalid, "piece size %v: want up to %v, or 0 for the default", s.Piece, maxPiece)
	case s.PerWork < 0 || s.PerWork > 1<<20:
		return fail(ErrInvalid, "%d pieces a work unit: want up to %d, or 0 for the default", s.PerWork, 1<<20)
	case s.SourceCopies != 0 && !(s.SourceCopies >= 1 && s.SourceCopies <= 1e6):
		return fail(ErrInvalid, "%v copies from the source: want at least 1, or 0 for no limit", s.SourceCopies)
	case s.SourceCopies != 0 && s.Algorithm == steal.Flat:
		return fail(ErrInvalid, "--source-copies with --algorithm flat, where every node reads a copy of its own: leave one of them out")
	case s.Timeout < 0:
		return fail(ErrInvalid, "timeout %v is negative: want a time, or 0 for none", s.Timeout)
	case s.Timeout > 0 && time.Duration(s.Timeout) < time.Second:
		return fail(ErrInvalid, "timeout %v: want at least 1s, or 0 for none", s.Timeout)
	case len(s.Nodes) > maxSelectors:
		return fail(ErrInvalid, "%d selectors are more than %d", len(s.Nodes), maxSelectors)
	}
	return checkDeclared(s.Declared)
}

func checkSource(source string) error {
	if source == "" {
		return fail(ErrInvalid, "no source: want s3://bucket/key, http(s)://… or file:///path")
	}
	if len(source) > maxSource {
		return fail(ErrInvalid, "source of %d characters is too long", len(source))
	}
	u, err := url.Parse(source)
	if err != nil {
		return fail(ErrInvalid, "source is not a URL: want s3://bucket/key, http(s)://… or file:///path")
	}
	if u.User != nil && (u.Scheme == "http" || u.Scheme == "https") {
		return fail(ErrInvalid, "source holds a user name or password, which would stand in the job's record: sources over http(s) must be readable without a login; use s3:// or file:// for others")
	}
	if u.User != nil {
		return fail(ErrInvalid, "source holds a user name or password, which would stand in the job's record: give the nodes credentials of their own instead")
	}
	for name := range u.Query() {
		if slices.Contains(signatures, strings.ToLower(name)) {
			return fail(ErrInvalid, "source is signed (%s), and the signature would stand in the job's record: name the object and give the nodes credentials of their own", name)
		}
	}
	switch u.Scheme {
	case "s3":
		if u.Host == "" || strings.Trim(u.Path, "/") == "" {
			return fail(ErrInvalid, "source %q: want s3://bucket/key, or s3://bucket/prefix/ for all that lies below it", source)
		}
	case "http", "https":
		if u.Host == "" {
			return fail(ErrInvalid, "source %q names no host", source)
		}
	case "file":
		if u.Host != "" || strings.Trim(u.Path, "/") == "" || !strings.HasPrefix(u.Path, "/") {
			return fail(ErrInvalid, "source %q: want file:///path, the same on every node", source)
		}
	default:
		return fail(ErrInvalid, "source %q: want s3://bucket/key, http(s)://… or file:///path", source)
	}
	return nil
}

// selectNodes returns the names that the selectors choose among known, sorted,
// each once. Without selectors it is all of them. A selector is a label
// ("site=east"; its value may be a glob), a glob ("gpu-*", as path.Match reads
// it) or a name. One that chooses nothing is an error, since it is a mistake
// more often than a wish.
func selectNodes(selectors []string, known map[string]NodeView) ([]string, error) {
	names := slices.Sorted(maps.Keys(known))
	if len(names) == 0 {
		return nil, fail(ErrNoSuchNode, "no node is registered: start an agent with a token from \"freshet token\"")
	}
	if len(selectors) == 0 {
		return names, nil
	}
	chosen := map[string]bool{}
	for _, sel := range selectors {
		if len(sel) > maxSelector {
			return nil, fail(ErrInvalid, "selector of %d characters is too long", len(sel))
		}
		match, err := selector(sel)
		if err != nil {
			return nil, err
		}
		any := false
		for _, name := range names {
			if match(known[name]) {
				chosen[name], any = true, true
			}
		}
		if !any {
			return nil, fail(ErrNoSuchNode, "no node matches %q; known nodes: %s", sel, listed(names))
		}
	}
	return slices.Sorted(maps.Keys(chosen)), nil
}

func selector(sel string) (func(NodeView) bool, error) {
	label, value, isLabel := strings.Cut(sel, "=")
	pattern := sel
	if isLabel {
		pattern = value
	}
	if sel == "" || isLabel && label == "" {
		return nil, fail(ErrInvalid, "selector %q: want a name, a glob such as \"gpu-*\" or label=value", sel)
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fail(ErrInvalid, "selector %q: unfinished pattern", sel)
	}
	matches := func(s string) bool { ok, _ := path.Match(pattern, s); return ok }
	if !isLabel {
		return func(n NodeView) bool { return matches(n.Name) }, nil
	}
	return func(n NodeView) bool {
		if label == "site" {
			return n.Site != "" && matches(n.Site)
		}
		v, ok := n.Labels[label]
		return ok && matches(v)
	}, nil
}

// listed is a list of names for a person: all of a few, the first of many.
func listed(names []string) string {
	const most = 12
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + ", … (" + plural(len(names), "node") + ")"
}

// shown is a source for messages and logs: without the query of a web address,
// which may be all that keeps strangers from what lies there.
func shown(source string) string {
	u, err := url.Parse(source)
	if err != nil || u.RawQuery == "" || u.Scheme != "http" && u.Scheme != "https" {
		return source
	}
	u.RawQuery = "..."
	return u.String()
}
