package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/pki"
)

// Client is an admin's connection to the control plane. It comes back by
// itself when it breaks. All methods may be called at once.
type Client struct {
	nc  *nats.Conn
	hub string

	cluster string             // fingerprint
	end     context.CancelFunc // of attempts to connect again

	closed atomic.Bool // by Close

	mu      sync.Mutex    // guards what follows
	changed chan struct{} // closed and replaced when the connection is lost or back
	lost    bool
	refused error // the hub will not have us any more
}

// ClientOptions may be left out.
type ClientOptions struct {
	// Hub is called when the connection to the control plane is lost (err says
	// why) and when it is back (nil).
	Hub func(err error)

	// Dial reaches the hub. nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// ErrLost is a control plane that does not answer any more.
var ErrLost = errors.New("lost the control plane")

// Connect connects to the hub of a.
func Connect(ctx context.Context, a Admin, o ClientOptions) (*Client, error) {
	if a.Credentials == nil || a.Credentials.Identity().Role != pki.Admin {
		return nil, errors.New("connect to the control plane: these are not an admin's credentials")
	}
	c := &Client{hub: a.Hub, cluster: a.Credentials.Identity().Cluster, changed: make(chan struct{})}
	say := func(err error) {
		if o.Hub != nil {
			o.Hub(err)
		}
	}
	l := &link{hub: a.Hub, creds: a.Credentials, dial: o.Dial,
		lost: func(err error) {
			if err == nil {
				err = io.EOF
			}
			if !c.closed.Load() {
				c.note(true, nil)
				say(fmt.Errorf("%w at %s, connecting again: %w", ErrLost, a.Hub, err))
			}
		},
		back:  func() { c.note(false, nil); say(nil) },
		final: func(err error) { c.note(true, err) },
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	nc, err := l.connect(ctx, life)
	if err != nil {
		end()
		return nil, err
	}
	c.nc, c.end = nc, end
	return c, nil
}

func (c *Client) note(lost bool, refused error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = lost
	if refused != nil {
		c.refused = refused
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Client) state() (lost bool, changed <-chan struct{}, refused error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost, c.changed, c.refused
}

// Close ends the connection.
func (c *Client) Close() {
	c.closed.Store(true)
	c.nc.Close()
	c.end()
}

// Hub is where the control plane is reached, HOST:PORT.
func (c *Client) Hub() string { return c.hub }

// How long calls wait.
const (
	callWithin   = 30 * time.Second // for a hub that is away, too
	submitWithin = 90 * time.Second // nodes may be asked about the source
)

// submitLimit is how long the control plane may take to accept s: it waits for what a source of several is for longer.
func (s Spec) submitLimit() time.Duration {
	return submitWithin + statAsked*(s.statLimit()-statWithin)
}

// call sends a request and reads the answer. One that may be sent twice is,
// when the connection breaks in between.
func (c *Client) call(ctx context.Context, verb string, in, out any, again bool) error {
	m, err := c.callRaw(ctx, verb, in, again)
	if err != nil {
		return err
	}
	return answered(m, out)
}

func (c *Client) callRaw(ctx context.Context, verb string, in any, again bool) (*nats.Msg, error) {
	limit := callWithin
	if !again {
		limit = submitWithin
	}
	return c.callFor(ctx, limit, verb, in, again)
}

// callFor is callRaw for as long as limit.
func (c *Client) callFor(ctx context.Context, limit time.Duration, verb string, in any, again bool) (*nats.Msg, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		lost, changed, refused := c.state()
		if refused != nil {
			return nil, refused
		}
		var m *nats.Msg
		err := nats.ErrDisconnected
		if !lost {
			attempt, stop := context.WithCancel(ctx)
			watch := make(chan struct{})
			go func() { // ends with the attempt
				defer close(watch)
				select {
				case <-changed:
					stop()
				case <-attempt.Done():
				}
			}()
			m, err = c.nc.RequestWithContext(attempt, "api."+verb, body)
			stop()
			<-watch
		}
		if err == nil {
			return m, nil
		}
		if caller.Err() != nil {
			return nil, caller.Err()
		}
		unsent := errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrReconnectBufExceeded)
		switch {
		case c.nc.IsClosed():
			return nil, fmt.Errorf("%w at %s: the connection was closed", ErrLost, c.hub)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w at %s: no answer within %v", ErrLost, c.hub, limit)
		case !unsent && !again:
			return nil, fmt.Errorf("%w at %s before it answered: see with \"freshet jobs\" whether it had accepted the request", ErrLost, c.hub)
		}
		select {
		case <-changed:
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// Submit hands in a job. When it returns the job is accepted, its record is on
// disk, and it goes on by itself. ErrDown if no selected node is up, ErrNoSuchNode
// if there is none, ErrConflict, ErrInvalid, ErrRefused, what the source's store says;
// after ErrLost it may have been accepted.
func (c *Client) Submit(ctx context.Context, s Spec) (Job, error) {
	var j Job
	m, err := c.callFor(ctx, s.submitLimit(), "submit", s, false)
	if err == nil {
		err = answered(m, &j)
	}
	return j, err
}

// Jobs are all jobs that are remembered, newest first, without their Members.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	jobs := []Job{}
	var r jobsRequest
	for {
		var page []Job
		if err := c.call(ctx, "jobs", r, &page, true); err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return jobs, nil
		}
		jobs = append(jobs, page...)
		r.Before = page[len(page)-1].ID
	}
}

// Job is the job of that ID, or of the only ID that begins so. ErrNoSuchJob.
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	var j Job
	err := c.call(ctx, "job", jobRequest{id}, &j, true)
	return j, err
}

// Courses are how the nodes' parts of a job that has ended went, by node; those
// of nodes that were lost are not there. ErrNoSuchJob.
func (c *Client) Courses(ctx context.Context, id string) (map[string]account.Course, error) {
	var packed []byte
	if err := c.call(ctx, "courses", jobRequest{id}, &packed, true); err != nil {
		return nil, err
	}
	courses, err := unpackCourses(packed)
	if err != nil {
		return nil, fmt.Errorf("how job %s went on its nodes: unreadable answer: %w", id, err)
	}
	return courses, nil
}

// Cancel tells every node to stop. It returns once the job's record says so;
// the job ends when the nodes have. ErrEnded if it has already.
func (c *Client) Cancel(ctx context.Context, id string) (Job, error) {
	var j Job
	err := c.call(ctx, "cancel", jobRequest{id}, &j, true)
	return j, err
}

// Watch yields the job as it is and then each change, at most four times a
// second, until it has ended: the last one yielded has an Ended state. While the
// control plane is away it waits for it (ClientOptions.Hub is told), however
// long, until ctx ends. An error is yielded once, last.
func (c *Client) Watch(ctx context.Context, id string) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		j, err := c.Job(ctx, id)
		if err != nil {
			yield(Job{}, err)
			return
		}
		snapshots := make(chan *nats.Msg, 64)
		sub, err := c.nc.ChanSubscribe("watch.job."+j.ID, snapshots)
		if err != nil {
			yield(Job{}, fmt.Errorf("watch job %s: %w", j.ID, err))
			return
		}
		defer sub.Unsubscribe()
		if !yield(j, nil) || j.State.Ended() {
			return
		}
		last := j.Revision
		const quiet = 5 * time.Second // the hub says something every two
		timer := time.NewTimer(0)     // ask once after the subscription
		defer timer.Stop()
		for {
			var next Job
			_, changed, refused := c.state()
			if refused != nil {
				yield(Job{}, refused)
				return
			}
			select {
			case m := <-snapshots:
				if json.Unmarshal(m.Data, &next) != nil || next.Revision < last && !next.State.Ended() {
					continue
				}
			case <-changed:
				timer.Reset(0)
				continue
			case <-timer.C:
				timer.Reset(quiet)
				next, err = c.Job(ctx, j.ID)
				if errors.Is(err, ErrLost) {
					continue
				}
				if err != nil {
					yield(Job{}, err)
					return
				}
				// Progress is not on the hub's disk, so after a restart of the hub
				// its count of changes may be lower than what we saw, and the end have a count that we saw.
			case <-ctx.Done():
				yield(Job{}, ctx.Err())
				return
			}
			timer.Reset(quiet)
			if next.Revision == last && !next.State.Ended() {
				continue
			}
			last = next.Revision
			if !yield(next, nil) || next.State.Ended() {
				return
			}
		}
	}
}

// Nodes are the registered nodes, by name.
func (c *Client) Nodes(ctx context.Context) ([]NodeView, error) {
	nodes := []NodeView{}
	err := c.call(ctx, "nodes", struct{}{}, &nodes, true)
	return nodes, err
}

// RemoveNode takes a node out of the cluster, whether it is up or down: within
// seconds no node accepts its certificates any longer, running jobs lose it, and its name is
// free. ErrNoSuchNode; ErrRefused if it runs in the control plane's own process.
func (c *Client) RemoveNode(ctx context.Context, name string) error {
	return c.call(ctx, "remove", nodeRequest{name}, nil, false)
}

// NewToken issues a token for that many nodes (0: one) to join within ttl (0:
// an hour).
func (c *Client) NewToken(ctx context.Context, uses int, ttl time.Duration) (token string, expires time.Time, err error) {
	var a tokenAnswer
	err = c.call(ctx, "token", tokenRequest{uses, Duration(ttl)}, &a, false)
	return a.Token, a.Expires, err
}

// Tokens are the tokens that are remembered, newest first.
func (c *Client) Tokens(ctx context.Context) ([]TokenView, error) {
	tokens := []TokenView{}
	err := c.call(ctx, "tokens", struct{}{}, &tokens, true)
	return tokens, err
}

// WithdrawToken makes the token of that ID, or of the only ID that begins so,
// useless at once. ErrNoSuchToken.
func (c *Client) WithdrawToken(ctx context.Context, id string) (TokenView, error) {
	var t TokenView
	err := c.call(ctx, "withdraw", withdrawRequest{id}, &t, false)
	return t, err
}

// Recording copies to w what a node has recorded of a job, for as long as that node
// says that there is more: w says how much it takes. ErrNoRecording,
// ErrNoSuchJob, ErrNoSuchNode, ErrDown.
func (c *Client) Recording(ctx context.Context, job, node string, w io.Writer) error {
	r := recordingRequest{Node: node, chunk: chunk{Job: job, N: maxChunk}}
	for {
		m, err := c.callRaw(ctx, "recording", r, true)
		if err == nil {
			err = answered(m, nil)
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(m.Data); err != nil {
			return err
		}
		r.Off += int64(len(m.Data))
		if m.Header.Get(headerEnd) != "" || len(m.Data) == 0 {
			return nil
		}
	}
}
