package form

import (
	"io"
	"sort"
	"strings"
)

// lineOf is the line in which a text becomes wrong, as err says of all of it: the first of those up to whose end it is wrong
// in the same way. It lies a few lines before what the parser has read when it gives up, so that few beginnings of the text have to be tried,
// however long that is.
func lineOf(text string, err error) int {
	// At the end of any beginning something is missing to who is between brackets. What follows it here makes that something
	// else than err says, unless what is wrong came before.
	more := ""
	switch said := err.Error(); {
	case strings.HasSuffix(said, "']'"), strings.HasSuffix(said, "'}'"): // with a value too many; not with none between commas
		more = "\n, , ,"
	case strings.HasSuffix(said, "node content"): // the other way round
		more = "\nx"
	}
	wrong := func(upTo int) bool {
		_, e := decode(strings.NewReader(text[:upTo] + more))
		return e != nil && e.Error() == err.Error()
	}
	r := &byLine{text: text, ends: []int{0}}
	_, _ = decode(r) // which is wrong as before
	last := len(r.ends) - 1
	for step := 1; ; step *= 2 {
		good := max(last-step, 0)
		if good == 0 || !wrong(r.ends[good]) {
			return good + 1 + sort.Search(last-good-1, func(i int) bool { return wrong(r.ends[good+1+i]) })
		}
		last = good
	}
}

// byLine is a text that is read a line at a time. Who has given up has asked for few lines that he did not need.
type byLine struct {
	text string
	at   int
	ends []int // of the lines that have been begun, the first of them 0
}

func (r *byLine) Read(p []byte) (int, error) {
	if r.at == len(r.text) {
		return 0, io.EOF
	}
	if r.at == r.ends[len(r.ends)-1] {
		end := len(r.text)
		if i := strings.IndexByte(r.text[r.at:], '\n'); i >= 0 {
			end = r.at + i + 1
		}
		r.ends = append(r.ends, end)
	}
	n := copy(p, r.text[r.at:r.ends[len(r.ends)-1]])
	r.at += n
	return n, nil
}
