// Package form reads documents that people write, YAML or JSON, strictly: an
// unknown key, a missing one, a value of the wrong kind is an error that
// names the line and the place.
//
//	line 3: links[0].rate: rate "1": want a number with bit, kbit, …
//
// A document is walked by whoever knows its form. The first error stays: after it all
// values read as zero, so that a reader asks once, at the end (Doc.Err):
//
//	doc := form.Parse(text)
//	o := doc.Root().Object("name", "size")
//	name, size := o.Need("name").Text(), o.Get("size").Bytes()
//	if err := doc.Err(); err != nil { … }
package form

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/freshet/freshet/unit"
)

// MaxText is how many bytes are read: more than the description of 200,000 hosts has. A value takes up to 0.4 KB
// of memory while it is read, so they are limited, too; and a long one several times its length.
const (
	MaxText   = 64 << 20
	maxValues = 4_000_000
	maxValue  = 1 << 20 // bytes, comments and all
)

// Read reads the text of a document, of a file of that name, or fails if it is longer than MaxText: so it ends
// whatever the file is.
func Read(name string, r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxText+1))
	if err == nil && len(text) > MaxText {
		return nil, fmt.Errorf("%s: it is longer than the %v that are read", name, unit.Bytes(MaxText))
	}
	return text, err
}

// Doc is a document that is being read.
type Doc struct {
	root *yaml.Node
	err  error
}

// Parse reads the text of a document. What is wrong with it is said by Err.
func Parse(text []byte) *Doc {
	d := &Doc{}
	if len(text) > MaxText {
		d.err = fmt.Errorf("%d bytes of text; at most %d are read", len(text), MaxText)
		return d
	}
	if d.err = look(text); d.err != nil {
		return d
	}
	s := string(text)
	if strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{") {
		s = strings.ReplaceAll(s, "\t", " ") // JSON may be indented with tabs, YAML not; within JSON's strings there are none
	}
	n, err := decode(strings.NewReader(s))
	switch {
	case err != nil:
		d.err = fmt.Errorf("line %d: %w", lineOf(s, err), err)
	case len(n.Content) != 1:
		d.err = errors.New("line 1: the document is empty")
	default:
		d.root = n.Content[0]
	}
	return d
}

// decode reads the only document of a text. Without one the node that it returns is empty. Errors have one line, and do not say
// where they are: the parser counts some from 0, and calls others by the first line of what they are in.
func decode(r io.Reader) (n yaml.Node, err error) {
	dec := yaml.NewDecoder(r)
	if err = dec.Decode(&n); errors.Is(err, io.EOF) {
		return n, nil
	}
	if err == nil {
		switch err = dec.Decode(new(yaml.Node)); {
		case errors.Is(err, io.EOF):
			return n, nil
		case err == nil:
			err = errors.New("there is more than one document in the file")
		}
	}
	said := strings.TrimPrefix(err.Error(), "yaml: ")
	if line, rest, ok := strings.Cut(said, ": "); ok && strings.HasPrefix(line, "line ") {
		said = rest
	}
	return n, errors.New(strings.Join(strings.Fields(said), " "))
}

// look says whether a text is none, or may have more than maxValues values or one of more than maxValue bytes, and in which line. It counts
// what parts values from each other; what of it stands in a text counts, too.
func look(text []byte) error {
	if wide(text) {
		return errors.New("line 1: the text is UTF-16; save it as UTF-8")
	}
	line, n, began := 1, 0, 0 // began: where the last value did, which may go on over lines
	for i, c := range text {
		switch c {
		case '\n':
			line++
			n++
			if i > 0 && text[i-1] == '-' {
				began = i
			}
		case ',', ':', '[', '{':
			n++
			began = i
		case ' ', '\t':
			if i > 0 && (text[i-1] == '-' || text[i-1] == '?') {
				n++
				began = i
			}
		default:
			if c < ' ' && c != '\r' || c == 0x7f {
				return fmt.Errorf("line %d: control characters are not allowed", line)
			}
		}
		if n > maxValues {
			return fmt.Errorf("line %d: more than %d values up to here; no more are read", line, maxValues)
		}
		if i-began > maxValue {
			return fmt.Errorf("line %d: a value of more than %v", line, unit.Bytes(maxValue))
		}
	}
	if !utf8.Valid(text) {
		line = 1
		for len(text) > 0 {
			r, size := utf8.DecodeRune(text)
			if r == utf8.RuneError && size == 1 {
				break
			}
			if r == '\n' {
				line++
			}
			text = text[size:]
		}
		return fmt.Errorf("line %d: the text is not UTF-8", line)
	}
	return nil
}

// wide says whether a text is UTF-16: it says so itself, or every other one of its first bytes is zero.
func wide(text []byte) bool {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return true
	}
	if len(text) < 4 {
		return false
	}
	zero := func(i int) bool { return text[i] == 0 }
	return zero(0) == zero(2) && zero(1) == zero(3) && zero(0) != zero(1)
}

// Err is the first thing that was wrong, or nil.
func (d *Doc) Err() error { return d.err }

// Root is the whole document.
func (d *Doc) Root() Value { return Value{doc: d, node: d.root} }

// Value is one value of a document. The zero Value is one that is not there.
type Value struct {
	doc  *Doc
	node *yaml.Node
	path string
	in   *yaml.Node // the object that it is not in, if it is not there
}

// Given says whether the value is there.
func (v Value) Given() bool { return v.node != nil && v.doc.err == nil }

// Line is the line that the value begins in; 0 if it is not there.
func (v Value) Line() int {
	if v.node == nil {
		return 0
	}
	return v.node.Line
}

// Fail notes an error at the value, unless there was one before.
func (v Value) Fail(format string, args ...any) {
	if v.doc == nil || v.doc.err != nil {
		return
	}
	where := ""
	if n := cmp.Or(v.node, v.in); n != nil {
		where = fmt.Sprintf("line %d: ", n.Line)
	}
	if v.path != "" {
		where += v.path + ": "
	}
	v.doc.err = fmt.Errorf("%s%s", where, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
}

// Object is a value with named fields.
type Object struct {
	Value
	fields []*yaml.Node // key, value, key, value
}

// Object reads the value as one with fields of these names only.
func (v Value) Object(keys ...string) Object {
	o := Object{Value: v}
	if !v.Given() {
		return o
	}
	if v.node.Kind != yaml.MappingNode {
		v.Fail("want an object with %s, not %s", strings.Join(keys, ", "), kind(v.node))
		return o
	}
	seen := make([]bool, len(keys))
	for i := 0; i < len(v.node.Content); i += 2 {
		k := v.node.Content[i]
		at := Value{doc: v.doc, node: k, path: v.path}
		which := slices.Index(keys, k.Value)
		switch {
		case k.Kind != yaml.ScalarNode || which < 0:
			at.Fail("unknown key %s; there are %s", short(k.Value), strings.Join(keys, ", "))
		case seen[which]:
			at.Fail("the key %s stands there twice", k.Value)
		default:
			seen[which] = true
		}
	}
	o.fields = v.node.Content
	return o
}

// IsObject says whether the value has fields.
func (v Value) IsObject() bool { return v.Given() && v.node.Kind == yaml.MappingNode }

// IsList says whether the value is a list.
func (v Value) IsList() bool { return v.Given() && v.node.Kind == yaml.SequenceNode }

// Get is a field, which need not be there.
func (o Object) Get(key string) Value {
	v := Value{doc: o.doc, path: key, in: cmp.Or(o.node, o.in)}
	if o.path != "" {
		v.path = o.path + "." + key
	}
	for i := 0; i < len(o.fields); i += 2 {
		if o.fields[i].Value == key {
			v.node = o.fields[i+1]
		}
	}
	return v
}

// Need is a field that has to be there.
func (o Object) Need(key string) Value {
	v := o.Get(key)
	if o.Given() && v.node == nil {
		o.Fail("%s is missing", key)
	}
	return v
}

// List is the elements of a list.
func (v Value) List() (elements []Value) {
	if !v.Given() {
		return nil
	}
	if v.node.Kind != yaml.SequenceNode {
		v.Fail("want a list, not %s", kind(v.node))
		return nil
	}
	for i, n := range v.node.Content {
		elements = append(elements, Value{doc: v.doc, node: n, path: v.path + "[" + strconv.Itoa(i) + "]"})
	}
	return elements
}

// Text is a string, or whatever else stands on one line, as it stands there.
func (v Value) Text() string {
	if !v.Given() {
		return ""
	}
	if v.node.Kind != yaml.ScalarNode || v.node.Tag == "!!null" {
		v.Fail("want a text, not %s", kind(v.node))
		return ""
	}
	return v.node.Value
}

// Words is a text of people's, of at most that many bytes. It is printable: nothing in it moves a terminal's cursor, or turns round what is beside it.
func (v Value) Words(most int) string {
	s := v.Text()
	if len(s) > most || strings.ContainsFunc(s, unprintable) {
		v.Fail("want a text of at most %d bytes that can be printed, not %s", most, short(s))
		return ""
	}
	return s
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == '\uFFFD' }

// Name is a text that can name something: printable, without spaces, at most 64 bytes.
func (v Value) Name() string {
	s := v.Text()
	if !v.Given() {
		return ""
	}
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, unprintable) || strings.Contains(s, " ") {
		v.Fail("a name is 1 to 64 bytes, printable and without spaces, not %s", short(s))
		return ""
	}
	return s
}

// OneOf is a text that is one of these.
func (v Value) OneOf(words ...string) string {
	s := v.Text()
	if v.Given() && !slices.Contains(words, s) {
		v.Fail("%s: want %s", short(s), strings.Join(words, ", "))
	}
	return s
}

// Int is a whole number from lo to hi.
func (v Value) Int(lo, hi int) int {
	s := v.Text()
	if !v.Given() {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < lo || n > hi {
		v.Fail("%s: want a whole number from %d to %d", short(s), lo, hi)
		return 0
	}
	return n
}

// Seed is a number that randomness begins with.
func (v Value) Seed() uint64 {
	s := v.Text()
	if !v.Given() {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		v.Fail("%s: want a whole number, not negative", short(s))
	}
	return n
}

// Number is a finite number, at least lo.
func (v Value) Number(lo float64) float64 {
	s := v.Text()
	if !v.Given() {
		return 0
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(x, 0) || !(x >= lo) {
		v.Fail("%s: want a number, at least %g", short(s), lo)
		return 0
	}
	return x
}

// Bytes is a size as package unit reads it.
func (v Value) Bytes() (b unit.Bytes) {
	parse(v, func(s string) (err error) { b, err = unit.ParseBytes(s); return err })
	return b
}

// Bandwidth is a rate as package unit reads it.
func (v Value) Bandwidth() (r unit.Bandwidth) {
	parse(v, func(s string) (err error) { r, err = unit.ParseBandwidth(s); return err })
	return r
}

// Duration is a time such as 50us or 1m30s, not negative.
func (v Value) Duration() (d time.Duration) {
	parse(v, func(s string) (err error) {
		if s == "0" {
			return nil
		}
		d, err = time.ParseDuration(s)
		if err != nil || d < 0 {
			d, err = 0, fmt.Errorf("%s: want a time such as 50us, 3s or 1m30s", short(s))
		}
		return err
	})
	return d
}

func parse(v Value, f func(string) error) {
	s := v.Text()
	if !v.Given() {
		return
	}
	if len(s) > 64 {
		v.Fail("%s is too long", short(s))
	} else if err := f(s); err != nil {
		v.Fail("%v", err)
	}
}

func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "an object"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias (they are not read)"
	case n.Tag == "!!null":
		return "nothing"
	}
	return short(n.Value)
}

// short quotes s, and cuts it if it is long.
func short(s string) string {
	const most = 40
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.Quote(s)
}
