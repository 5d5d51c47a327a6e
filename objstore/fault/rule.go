package fault

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/unit"
)

// Rule is one line of the language that the package comment describes.
type Rule struct {
	Op  string // "stat", "read", "list", "put" or "any"
	Key string // pattern of path.Match; empty: every key

	Lo, Hi unit.Bytes // offset=[Lo,Hi); Hi = 0: every offset
	Nth    int        // 0: every one
	Every  int        // 0: every one
	Times  int        // 0: as often as it comes
	First  time.Duration
	After  time.Duration

	Action string
	Wait   time.Duration // of busy, 503, 429 and delay
	At     unit.Bytes    // of truncate, reset, replace (bytes delivered before) and flip (offset in the object)
}

// What follows an action's name.
const (
	nothing     = iota
	optionalFor // a duration, or nothing
	needsFor
	optionalAt // a size, or nothing
	needsAt
)

// actions says of each what follows it, and which operations it can befall;
// empty: all.
var actions = map[string]struct {
	follows int
	op      string
}{
	"busy": {optionalFor, ""}, "503": {optionalFor, ""}, "429": {optionalFor, ""},
	"500": {nothing, ""}, "denied": {nothing, ""}, "missing": {nothing, ""},
	"delay": {needsFor, ""}, "stall": {nothing, ""},
	"reset": {optionalAt, ""}, "replace": {optionalAt, "read"},
	"truncate": {needsAt, "read"}, "flip": {needsAt, "read"},
}

// Parse reads rules, one a line or separated by semicolons; what follows a #
// is a comment.
func Parse(text string) ([]Rule, error) {
	var rules []Rule
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		for one := range strings.SplitSeq(line, ";") {
			if strings.TrimSpace(one) == "" {
				continue
			}
			r, err := parseRule(one)
			if err != nil {
				return nil, fmt.Errorf("fault rule %q in line %d: %w", strings.TrimSpace(one), i+1, err)
			}
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// MustParse is Parse for rules that stand in a test.
func MustParse(text string) []Rule {
	rules, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return rules
}

func parseRule(s string) (r Rule, err error) {
	when, what, ok := strings.Cut(s, "->")
	if !ok {
		return r, fmt.Errorf(`no "->" between condition and action`)
	}
	words := strings.Fields(when)
	r.Op = "any"
	if len(words) > 0 && !strings.Contains(words[0], "=") {
		switch r.Op = words[0]; r.Op {
		case "stat", "read", "list", "put", "any":
		default:
			return r, fmt.Errorf("unknown operation %q: want stat, read, list, put or any", r.Op)
		}
		words = words[1:]
	}
	seen := make(map[string]bool)
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok || value == "" {
			return r, fmt.Errorf("condition %q: want name=value", w)
		}
		if seen[name] {
			return r, fmt.Errorf("condition %s stands there twice", name)
		}
		seen[name] = true
		if err := r.condition(name, value); err != nil {
			return r, err
		}
	}
	if r.Nth > 0 && (r.Every > 0 || r.Times > 0) {
		return r, fmt.Errorf("nth goes with neither every nor times")
	}
	if r.Hi > 0 && r.Op != "read" {
		return r, fmt.Errorf("only a read has an offset")
	}
	return r, r.action(strings.Fields(what))
}

func (r *Rule) condition(name, value string) (err error) {
	switch name {
	case "key":
		if _, err := path.Match(value, ""); err != nil {
			return fmt.Errorf("key=%s: %w", value, err)
		}
		r.Key = value
	case "offset":
		lo, hi, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(value, "["), ")"), ",")
		if !ok || value[0] != '[' || value[len(value)-1] != ')' {
			return fmt.Errorf("offset=%s: want [from,to)", value)
		}
		if r.Lo, err = unit.ParseBytes(lo); err != nil {
			return fmt.Errorf("offset=%s: %w", value, err)
		}
		if r.Hi, err = unit.ParseBytes(hi); err != nil {
			return fmt.Errorf("offset=%s: %w", value, err)
		}
		if r.Hi <= r.Lo {
			return fmt.Errorf("offset=%s: is empty", value)
		}
	case "nth":
		r.Nth, err = count(name, value)
	case "every":
		r.Every, err = count(name, value)
	case "times":
		r.Times, err = count(name, value)
	case "first":
		r.First, err = duration(value)
	case "after":
		r.After, err = duration(value)
	default:
		return fmt.Errorf("unknown condition %q: want key, offset, nth, every, times, first or after", name)
	}
	return err
}

func (r *Rule) action(words []string) (err error) {
	if len(words) == 0 {
		return fmt.Errorf("no action")
	}
	r.Action = words[0]
	a, ok := actions[r.Action]
	if !ok {
		return fmt.Errorf("unknown action %q: want busy, 503, 429, 500, reset, denied, missing, replace, truncate, flip, delay or stall", r.Action)
	}
	if a.op != "" && r.Op == "any" {
		r.Op = a.op
	}
	if a.op != "" && r.Op != a.op {
		return fmt.Errorf("%s befalls a %s, not a %s", r.Action, a.op, r.Op)
	}
	if len(words) > 2 || len(words) == 2 && a.follows == nothing {
		return fmt.Errorf("%q is too much after %s", strings.Join(words[1:], " "), r.Action)
	}
	if len(words) == 1 {
		switch a.follows {
		case needsFor:
			return fmt.Errorf("%s needs a duration, such as 2s", r.Action)
		case needsAt:
			return fmt.Errorf("%s needs a number of bytes, such as 4096 or 1MiB", r.Action)
		}
		return nil
	}
	switch a.follows {
	case optionalFor, needsFor:
		r.Wait, err = duration(words[1])
	case optionalAt, needsAt:
		if r.Op != "read" {
			return fmt.Errorf("%s %s: only a read can be cut in its middle", r.Action, words[1])
		}
		r.At, err = unit.ParseBytes(words[1])
	}
	return err
}

func count(name, s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s=%s: want a number from 1", name, s)
	}
	return n, nil
}

func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a duration such as 500ms or 10s", s)
	}
	return d, nil
}

// String prints r as Parse reads it.
func (r Rule) String() string {
	var b strings.Builder
	b.WriteString(r.Op)
	cond := func(name, value string, there bool) {
		if there {
			b.WriteString(" " + name + "=" + value)
		}
	}
	cond("key", r.Key, r.Key != "")
	cond("offset", fmt.Sprintf("[%d,%d)", r.Lo, r.Hi), r.Hi > 0)
	cond("nth", strconv.Itoa(r.Nth), r.Nth > 0)
	cond("every", strconv.Itoa(r.Every), r.Every > 0)
	cond("times", strconv.Itoa(r.Times), r.Times > 0)
	cond("first", r.First.String(), r.First > 0)
	cond("after", r.After.String(), r.After > 0)
	b.WriteString(" -> " + r.Action)
	if r.Wait > 0 {
		b.WriteString(" " + r.Wait.String())
	}
	if r.At > 0 || actions[r.Action].follows == needsAt {
		fmt.Fprintf(&b, " %d", r.At)
	}
	return b.String()
}
