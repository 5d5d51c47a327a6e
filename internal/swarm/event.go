package swarm

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/objstore"
)

// Event is one line of a recording: what happened to one node, and when. A
// recording is JSON, one event a line; each node writes its own, and
// recordings of several nodes and runs may be concatenated in any order.
// Reports and pictures are made from that alone.
//
//	kind    fields                              meaning
//	run     job algorithm source size           first of each node: what is moved, to whom (nodes, in rank order)
//	        piece_size nodes start              and when the job was accepted; of several objects the files, one
//	        files                               behind the other
//	piece   piece bytes from                    the node has this piece, checked; from is "store" or the
//	                                            node that gave most of its blocks
//	work    lo hi from                          the node took over the works of pieces [lo, hi) from a node
//	phase   phase                               1: reads from the store; 2: exchanges with peers
//	fault   peer cause                          what the node saw go wrong, and with whom ("store" or a node)
//	done    verified                            the file is in its place; verified as in Progress
//	failed  cause                               the node gave up
//	bound   bound_s by                          the job's fluid lower bound and the resource that sets it (one a job)
type Event struct {
	Kind string  `json:"kind"`
	T    float64 `json:"t"`             // seconds since the job was accepted
	Job  string  `json:"job"`           // on every line, so that files can be merged
	Node string  `json:"node,omitzero"` // who tells; empty for bound

	Algorithm string      `json:"algorithm,omitzero"`
	Source    string      `json:"source,omitzero"`
	Size      int64       `json:"size,omitzero"`       // bytes
	PieceSize int64       `json:"piece_size,omitzero"` // bytes
	Nodes     []string    `json:"nodes,omitzero"`
	Start     time.Time   `json:"start,omitzero"`
	Files     []EventFile `json:"files,omitzero"`

	Piece    *int    `json:"piece,omitempty"` // a pointer, since there is a piece 0
	Bytes    int64   `json:"bytes,omitzero"`
	From     string  `json:"from,omitzero"`
	Lo       int     `json:"lo,omitzero"`
	Hi       int     `json:"hi,omitzero"`
	Phase    int     `json:"phase,omitzero"`
	Peer     string  `json:"peer,omitzero"`
	Cause    string  `json:"cause,omitzero"`
	Verified string  `json:"verified,omitzero"`
	BoundS   float64 `json:"bound_s,omitzero"`
	By       string  `json:"by,omitzero"`
}

// EventFile is one file of several.
type EventFile struct {
	Name string `json:"name,omitzero"` // left out of very many
	Size int64  `json:"size"`          // bytes
}

// mostNamed is how many files a recording names: each node tells of all of them.
const mostNamed = 1000

// EventFiles are objects as a recording has them, without what their keys begin with; none if it is one.
func EventFiles(objects []objstore.Object, prefix string) (files []EventFile) {
	if len(objects) < 2 {
		return nil
	}
	for _, o := range objects {
		f := EventFile{Size: int64(o.Size)}
		if len(objects) <= mostNamed {
			f.Name = strings.TrimPrefix(o.Key, prefix)
		}
		files = append(files, f)
	}
	return files
}

// Recorder writes events to w, one JSON object a line. A nil Recorder records
// nothing. Safe for concurrent use; the first write error stops it and is
// what Err returns.
type Recorder struct {
	job, node string
	start     time.Time

	mu  sync.Mutex // guards enc and err
	enc *json.Encoder
	err error
}

// NewRecorder returns a recorder for one node of one job, whose events count
// their seconds from start.
func NewRecorder(w io.Writer, job, node string, start time.Time) *Recorder {
	return &Recorder{job: job, node: node, start: start, enc: json.NewEncoder(w)}
}

// Record writes e as of now, with the recorder's job and node.
func (r *Recorder) Record(now time.Time, e Event) {
	if r == nil {
		return
	}
	e.T, e.Job, e.Node = now.Sub(r.start).Seconds(), r.job, r.node
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = r.enc.Encode(e)
	}
}

// Err is the first error of writing.
func (r *Recorder) Err() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
