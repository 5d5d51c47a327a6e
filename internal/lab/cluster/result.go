package cluster

// Result is a broadcast as "freshet broadcast --json" tells of it: seconds from
// when the control plane accepted the job, and bytes of payload.
type Result struct {
	Job       string   `json:"job"`
	State     string   `json:"state"` // "done", "failed" or "cancelled"
	Error     string   `json:"error"`
	Algorithm string   `json:"algorithm"`
	Bytes     int64    `json:"bytes"`      // of the object
	MakespanS float64  `json:"makespan_s"` // until the last node that got it had it
	BoundS    *float64 `json:"bound_s"`    // by the rates that the nodes declare; nil: none does
	BoundBy   string   `json:"bound_by"`
	FastestS  float64  `json:"fastest_s"`
	SlowestS  float64  `json:"slowest_s"`

	StoreBytes int64  `json:"store_bytes"` // of all nodes together
	PeerBytes  int64  `json:"peer_bytes"`
	Verified   string `json:"verified"`
	Nodes      []Node `json:"nodes"`

	Exit   int    `json:"-"` // of the command
	Stderr string `json:"-"` // what it said to people
}

// Node is one node's part.
type Node struct {
	Name       string   `json:"name"`
	State      string   `json:"state"`
	DoneS      *float64 `json:"done_s"` // nil: it did not get the object; 0: it had it before
	StoreBytes int64    `json:"store_bytes"`
	StoreSlow  string   `json:"store_slow"` // how slow its connection to the store was, if it was
	PeerBytes  int64    `json:"peer_bytes"`
	SHA256     string   `json:"sha256"`
	Verified   string   `json:"verified"`
	Error      string   `json:"error"`
	Faults     []Fault  `json:"faults"`
}

// Fault is something that a node saw another one, or the store, do wrong.
type Fault struct {
	Node  string `json:"node"`
	Cause string `json:"cause"`
}

// Node is the part of the node of that name, the zero Node if it had none.
func (r Result) Node(name string) Node {
	for _, n := range r.Nodes {
		if n.Name == name {
			return n
		}
	}
	return Node{}
}
