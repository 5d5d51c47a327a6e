package freshet

import (
	"context"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/steal"
)

// What a Client speaks of. The types are the control plane's own: a job is the
// same thing in its record, on the wire and here.
type (
	// Client is an admin's connection to a cluster. It comes back by itself
	// when it breaks, and all of its methods may be called at once.
	Client = control.Client
	// ClientOptions may be left out.
	ClientOptions = control.ClientOptions
	// Spec is what a broadcast is to do.
	Spec = control.Spec
	// Job is the record of a broadcast.
	Job = control.Job
	// Files are the objects of a job of several.
	Files = control.Files
	// NodeStatus is one node's part of a job.
	NodeStatus = control.NodeStatus
	// NodeView is a node as the control plane knows it.
	NodeView = control.NodeView

	// TokenView is a token as the control plane knows it, without its secret.
	TokenView = control.TokenView
	// Fault is something that a node saw another node or the store do wrong.
	Fault = control.Fault
	// State is where a job or a node's part of it stands.
	State = control.State
	// Course is how one node's part of a job went, and Account what Job.Account makes of all of them.
	Course  = account.Course
	Account = account.Account
	// Cause is what held a job up, and Capacity what something carries and from where that is known.
	Cause    = account.Cause
	Capacity = account.Capacity
	// Capacities are those of a node's network.
	Capacities = account.Capacities
	// Probe is what Client.Probe has measured, and ProbedNode what of a node.
	Probe      = control.Probe
	ProbedNode = control.ProbedNode
	// Duration is a time.Duration that JSON shows as text.
	Duration = control.Duration
)

// What a caller of a Client's methods may want to branch on; their comments say
// which. errors.Is finds them, and the texts say more.
var (
	ErrInvalid     = control.ErrInvalid     // the request makes no sense as it stands
	ErrNoSuchJob   = control.ErrNoSuchJob   //
	ErrNoSuchNode  = control.ErrNoSuchNode  // a name that is not registered, or a selector that matches nothing
	ErrNoSuchToken = control.ErrNoSuchToken //
	ErrNoRecording = control.ErrNoRecording // the job kept none on that node
	ErrRefused     = control.ErrRefused     // not allowed, or not now
	ErrConflict    = control.ErrConflict    // another job is writing to the same place
	ErrDown        = control.ErrDown        // of the node or all nodes that were asked for
	ErrEnded       = control.ErrEnded       // the job has ended already
	ErrRemoved     = control.ErrRemoved     // from Node.Wait, too: the node was removed from the cluster
	ErrUnavailable = control.ErrUnavailable // the control plane ends, or its records cannot be written
	ErrLost        = control.ErrLost        // the control plane does not answer any more
)

// The states of jobs and of nodes' parts.
const (
	Preparing = control.Preparing
	Running   = control.Running
	Done      = control.Done
	Present   = control.Present
	Failed    = control.Failed
	Cancelled = control.Cancelled
)

// The algorithms of a broadcast; package swarm says what each does.
const (
	Flat     = steal.Flat
	NonSteal = steal.NonSteal
	Steal    = steal.Steal
	Stream   = steal.Stream
)

// Algorithms lists them, and DefaultAlgorithm is for who does not choose.
var Algorithms = steal.Algorithms

// Coming and Waiting are what a node can be at until it has the object: a Course has the time of each.
var (
	Coming  = account.Coming
	Waiting = account.Waiting
)

// DefaultAlgorithm is what a Spec without one gets.
const DefaultAlgorithm = steal.Default

// Connect connects to the cluster whose admin credential, as a node with a
// control plane writes it, lies in adminFile.
func Connect(ctx context.Context, adminFile string, o ClientOptions) (*Client, error) {
	admin, err := control.LoadAdmin(adminFile)
	if err != nil {
		return nil, err
	}
	return control.Connect(ctx, admin, o)
}
