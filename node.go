package freshet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/landing"
	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/unit"
)

// DefaultPort is the TCP port of a node where nobody says otherwise.
const DefaultPort = "7433"

// How data travels between nodes.
const (
	SecurityTLS     = "tls"
	SecurityTrusted = "trusted"
)

// NodeConfig says what a Node is. A process has a control plane, an agent, or both.
type NodeConfig struct {
	State  string // directory for credentials and records, made if need be; one process at a time
	Listen string // HOST:PORT to listen on; empty: every address, DefaultPort

	// Advertise is where the other nodes reach this one: HOST:PORT, a host, or
	// the name of a network interface. Empty: the address this machine uses towards
	// the control plane or, with a control plane of its own, its first address that is not loopback.
	Advertise string

	ControlPlane bool   // run the cluster's control plane here
	NATS         string // with ControlPlane: an existing NATS cluster that keeps its records; empty: an embedded one
	NATSCreds    string // credentials file for it; empty: none

	Join  string // without ControlPlane: HOST:PORT of the control plane
	Token string // for the first time, and after a removal a new one; credentials in State make it needless

	Agent   bool // take part in jobs
	Name    string
	Roots   []string // directories under which jobs may write; at least one
	Site    string
	Labels  map[string]string
	RateIn  unit.Bandwidth // caps on all traffic of this process, the store's included; zero: none
	RateOut unit.Bandwidth

	// Declared is what this machine's network carries, for the bound that a job is held against: DeclareIn,
	// DeclareOut, DeclareStore. Nothing is held to it. What is missing is taken from the network card, or from other jobs.
	Declared map[string]unit.Bandwidth

	// Security is SecurityTLS, also if empty, or SecurityTrusted: data to and from
	// nodes that were told the same travels in plain TCP once both have proved who they are.
	Security string

	Version string       // of the program, for others to see
	Log     *slog.Logger // nil: slog.Default()

	life time.Duration // with ControlPlane: of the certificates that it issues; zero: a year
}

// Node is one process of a cluster, between Start and Close.
type Node struct {
	config    NodeConfig
	log       *slog.Logger
	lock      *os.File // on State, for as long as the node is
	port      *peer.Port
	hub       *control.Hub // nil: no control plane here
	worker    *worker      // nil: no agent here
	advertise string
	admin     string

	agent atomic.Pointer[control.Agent] // nil: none, or not begun yet

	cancel    context.CancelCauseFunc
	stopAgent context.CancelFunc // before the rest
	left      chan struct{}      // closed when the agent has ended; nil: none
	wg        sync.WaitGroup
	ended     chan struct{}
	once      sync.Once

	mu  sync.Mutex // guards err
	err error      // the first cause of the end
}

// Start starts a node and returns when it has its place in the cluster: a
// control plane that listens, an agent that is registered. ctx covers the
// start only; Close ends the node.
func Start(ctx context.Context, c NodeConfig) (n *Node, err error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Listen == "" {
		c.Listen = ":" + DefaultPort
	}
	if !c.ControlPlane && !c.Agent {
		return nil, errors.New("a node needs a control plane, an agent, or both")
	}
	if c.Agent && len(c.Roots) == 0 {
		return nil, errors.New("an agent needs at least one root, a directory under which jobs may write")
	}
	if c.State == "" {
		return nil, errors.New("a node needs a state directory")
	}
	if c.Security = cmp.Or(c.Security, SecurityTLS); c.Security != SecurityTLS && c.Security != SecurityTrusted {
		return nil, fmt.Errorf("security %q: want %s or %s", c.Security, SecurityTLS, SecurityTrusted)
	}
	if err := checkDeclared(c.Declared); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.State, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	n = &Node{config: c, log: c.Log, ended: make(chan struct{})}
	if n.lock, err = lockState(c.State); err != nil {
		return nil, err
	}
	run, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	n.cancel = cancel
	if err := n.open(ctx); err != nil {
		n.abandon()
		return nil, err
	}
	n.spawn(func() error { return n.port.Run(run) })
	if n.hub != nil {
		n.spawn(func() error { return n.hub.Run(run) })
	}
	if c.Agent {
		err = n.register(ctx, run)
	}
	go func() { // ends with the last of wg; Close and Wait wait for it
		n.wg.Wait()
		if n.worker != nil {
			n.worker.close()
		}
		n.lock.Close()
		close(n.ended)
	}()
	if err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// open makes everything that can fail before something runs.
func (n *Node) open(ctx context.Context) (err error) {
	c := &n.config
	in, out := pace.New(c.RateIn), pace.New(c.RateOut)
	options := peer.Options{Trusted: c.Security == SecurityTrusted, In: in, Out: out, Log: n.log}
	dial := peer.Dialer("", nil, nil) // the control plane's traffic is not counted
	if c.ControlPlane {
		n.hub, err = control.OpenHub(ctx, control.Config{State: filepath.Join(c.State, hubName), NATS: c.NATS, NATSCreds: c.NATSCreds, Log: n.log, Dial: dial, Life: c.life})
		if err != nil {
			return err
		}
		options.Hub = n.hub.Credentials()
	}
	if c.Agent {
		if n.worker, err = openWorker(c, in, out); err != nil {
			return err
		}
		path := c.credentialsFile()
		if n.hub != nil {
			n.worker.creds, err = n.hub.Enroll(ctx, c.Name, path)
		} else {
			n.worker.creds, err = credentials(ctx, c, path, dial)
		}
		if err != nil {
			return err
		}
		options.Credentials = n.worker.creds
	}
	if n.port, err = peer.Listen(c.Listen, options); err != nil {
		return err
	}
	if n.worker != nil {
		removed, err := control.LoadRevoked(c.revokedFile())
		if err != nil {
			return err
		}
		n.port.Revoke(removed)
	}
	if n.hub != nil {
		n.port.Handle(peer.ProtocolControl, true, n.hub.ServeControl)
	}
	n.port.Handle(peer.ProtocolHTTP, false, n.web().serve)
	if n.advertise, err = advertised(c.Advertise, c.Join, n.port.Addr()); err != nil {
		return err
	}
	if n.hub != nil {
		if n.admin, err = n.hub.WriteAdmin(ctx, n.advertise); err != nil {
			return err
		}
	}
	if n.worker != nil {
		n.worker.port, n.worker.network = n.port, c.capacities(n.advertise)
	}
	return nil
}

func (c *NodeConfig) credentialsFile() string { return filepath.Join(c.State, credentialsName) }
func (c *NodeConfig) revokedFile() string     { return filepath.Join(c.State, "revoked.json") }
func (c *NodeConfig) joinedFile() string      { return filepath.Join(c.State, "joined-with") }

// What is in a state directory, besides.
const (
	lockName        = "lock"
	credentialsName = "node.pem" // of an agent
	hubName         = "hub"      // directory of a control plane
)

// isState says whether dir is a state directory: of a control plane, an agent, or both.
func isState(dir string) bool {
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return has(lockName) && (has(credentialsName) || has(hubName))
}

// credentials are those in path or, for who has none yet, new ones in exchange for the token.
func credentials(ctx context.Context, c *NodeConfig, path string, dial func(context.Context, string, string) (net.Conn, error)) (*pki.Credentials, error) {
	if c.Join == "" {
		return nil, errors.New("an agent needs the address of a control plane to join")
	}
	creds, err := pki.Load(path)
	switch {
	case err == nil && c.Token != "":
		if token, err := pki.ParseToken(c.Token); err == nil && token.CAFingerprint != creds.Identity().Cluster {
			return nil, fmt.Errorf("%s holds credentials of cluster %s, the token is of cluster %s: use another state directory to join that one",
				path, pki.Short(creds.Identity().Cluster), pki.Short(token.CAFingerprint))
		}
		fallthrough
	case err == nil:
		if name := creds.Identity().Name; name != c.Name {
			return nil, fmt.Errorf("%s holds the credentials of node %s, not of %s: use that name, or another state directory", path, name, c.Name)
		}
		return creds, nil
	case errors.Is(err, pki.ErrExpired) && c.Token != "": // joins anew
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	case c.Token == "":
		return nil, fmt.Errorf("no credentials in %s yet: give a token (freshet token, where the control plane runs)", path)
	}
	return join(ctx, c, dial)
}

// join exchanges the token for credentials, and keeps them and the token's ID.
func join(ctx context.Context, c *NodeConfig, dial func(context.Context, string, string) (net.Conn, error)) (*pki.Credentials, error) {
	token, err := pki.ParseToken(c.Token)
	if err != nil {
		return nil, err
	}
	creds, err := control.Join(ctx, control.JoinConfig{Hub: c.Join, Token: c.Token, Name: c.Name, Log: c.Log, Dial: dial})
	if err != nil {
		return nil, err
	}
	if err := pki.WriteFile(c.joinedFile(), []byte(token.ID+"\n")); err != nil {
		return nil, err
	}
	return creds, creds.Save(c.credentialsFile())
}

// hasNewToken says whether the token is another one than that with which this
// state directory's credentials were got.
func (c *NodeConfig) hasNewToken() bool {
	token, err := pki.ParseToken(c.Token)
	if err != nil {
		return false
	}
	last, err := os.ReadFile(c.joinedFile())
	return err == nil && strings.TrimSpace(string(last)) != token.ID
}

// register runs the agent and waits until the control plane has taken it in. A
// node that was removed meanwhile joins anew if somebody gave it another token since it
// joined. With the one that it had it does not: that token may be good for many nodes, and
// what starts the agent again, such as systemd, would undo the removal.
func (n *Node) register(ctx, run context.Context) error {
	err := n.runAgent(ctx, run)
	c := &n.config
	if !errors.Is(err, control.ErrRemoved) || n.hub != nil || !c.hasNewToken() {
		return err
	}
	n.log.Info("removed from the cluster; joining anew with a new token", "node", c.Name)
	next, err := join(ctx, c, peer.Dialer("", nil, nil))
	if err != nil {
		return err
	}
	if err := n.worker.creds.Replace(next); err != nil {
		return err
	}
	return n.runAgent(ctx, run)
}

func (n *Node) runAgent(ctx, run context.Context) error {
	c := &n.config
	hub := c.Join
	if n.hub != nil {
		hub = n.advertise
	}
	registered, failed := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	run, n.stopAgent = context.WithCancel(run)
	n.left = make(chan struct{})
	agent := &control.Agent{
		Hub: hub, Credentials: n.worker.creds, Runner: n.worker, Log: n.log, Dial: peer.Dialer("", nil, nil),
		Registration: control.Registration{
			Addr: n.advertise, Site: c.Site, Labels: c.Labels, Roots: n.worker.roots.Dirs(),
			Version: c.Version, RateIn: c.RateIn, RateOut: c.RateOut, Security: c.Security,
		},
		Registered:      func() { once.Do(func() { close(registered) }) },
		CredentialsFile: c.credentialsFile(), RevokedFile: c.revokedFile(), Revoke: n.port.Revoke,
	}
	n.agent.Store(agent)
	n.spawn(func() error {
		defer close(n.left)
		err := agent.Run(run)
		failed <- err
		select {
		case <-registered:
			return err
		default:
			return nil // who started it has the error
		}
	})
	select {
	case <-registered:
		return nil
	case err := <-failed:
		if err == nil {
			err = context.Cause(run)
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the control plane at %s: %w", hub, context.Cause(ctx))
	}
}

// spawn runs a part of the node. When one fails all end.
func (n *Node) spawn(run func() error) {
	n.wg.Go(func() {
		if err := run(); err != nil {
			n.mu.Lock()
			if n.err == nil {
				n.err = err
			}
			n.mu.Unlock()
			n.cancel(err)
		}
	})
}

// abandon closes what open had opened when it failed.
func (n *Node) abandon() {
	if n.port != nil {
		n.port.Close()
	}
	if n.hub != nil {
		n.hub.Close()
	}
	if n.worker != nil {
		n.worker.close()
	}
	n.lock.Close()
}

// lockState keeps other processes out of a state directory: two control planes
// over the same records would ruin them. The lock ends with the file, or the process.
func lockState(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("state directory %s is in use by another process: stop that one, or use another directory", dir)
	}
	return nil, fmt.Errorf("lock state directory %s: %w", dir, err)
}

// Name is the node's name, empty without an agent.
func (n *Node) Name() string {
	if n.worker == nil {
		return ""
	}
	return n.worker.creds.Identity().Name
}

// Addr is where other nodes reach this one.
func (n *Node) Addr() string { return n.advertise }

// AdminFile is the admin's credential, empty without a control plane.
func (n *Node) AdminFile() string { return n.admin }

// NewToken issues a token with which so many nodes can join within an hour. Only
// a node with a control plane can.
func (n *Node) NewToken(ctx context.Context, uses int) (string, error) {
	if n.hub == nil {
		return "", errors.New("this node has no control plane")
	}
	token, _, err := n.hub.NewToken(ctx, uses, 0)
	return token, err
}

// Wait returns when the node has ended, with the cause unless it was Close.
func (n *Node) Wait() error {
	<-n.ended
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Close ends the node: running jobs end here as failed, and nothing of them is left behind.
func (n *Node) Close() error {
	n.once.Do(func() { n.cancel(nil) })
	return n.Wait()
}

// Shutdown ends the node as Close does, but first its agent tells the cluster
// that it leaves: it is given no more jobs, and those that run go on until
// they have ended or ctx has. What runs then still fails here with a cause
// that says so, and the other nodes are told, so that they need not wait for it. A
// control plane takes no more jobs meanwhile.
func (n *Node) Shutdown(ctx context.Context) error {
	if n.hub != nil {
		n.hub.Leave()
	}
	if a := n.agent.Load(); a != nil {
		a.Leave(ctx)
		n.stopAgent()
		<-n.left // it tells the control plane, which may be ours
	}
	return n.Close()
}

// advertised is HOST:PORT at which others reach a port that listens on addr.
func advertised(want, hub string, addr net.Addr) (string, error) {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "", err
	}
	if want != "" {
		if h, p, err := net.SplitHostPort(want); err == nil {
			return net.JoinHostPort(h, p), nil
		}
		if ifc, err := net.InterfaceByName(want); err == nil {
			ip, err := firstAddress(ifc)
			if err != nil {
				return "", err
			}
			return net.JoinHostPort(ip, port), nil
		}
		return net.JoinHostPort(want, port), nil
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		return net.JoinHostPort(host, port), nil
	}
	if hub != "" { // what this machine uses towards the hub; nothing is sent
		if c, err := net.Dial("udp", hub); err == nil {
			defer c.Close()
			local, _, _ := net.SplitHostPort(c.LocalAddr().String())
			return net.JoinHostPort(local, port), nil
		}
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, ifc := range interfaces {
		if ifc.Flags&net.FlagUp == 0 || ifc.Flags&net.FlagLoopback != 0 {
			continue
		}
		if ip, err := firstAddress(&ifc); err == nil {
			return net.JoinHostPort(ip, port), nil
		}
	}
	return net.JoinHostPort("127.0.0.1", port), nil
}

// firstAddress is an interface's first global address, IPv4 before IPv6.
func firstAddress(ifc *net.Interface) (string, error) {
	addrs, err := ifc.Addrs()
	if err != nil {
		return "", fmt.Errorf("interface %s: %w", ifc.Name, err)
	}
	var ips []net.IP
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && (n.IP.IsGlobalUnicast() || n.IP.IsLoopback()) {
			ips = append(ips, n.IP)
		}
	}
	if len(ips) == 0 {
		return "", fmt.Errorf("interface %s has no address", ifc.Name)
	}
	if i := slices.IndexFunc(ips, func(ip net.IP) bool { return ip.To4() != nil }); i >= 0 {
		return ips[i].String(), nil
	}
	return ips[0].String(), nil
}

// openRoots opens the roots and removes what a killed process left in them.
func openRoots(c *NodeConfig) (*landing.Roots, error) {
	roots, err := landing.OpenRoots(c.Roots, filepath.Join(c.State, "landing"))
	if err != nil {
		return nil, err
	}
	if err := roots.Sweep(); err != nil { // all else can be used
		c.Log.Warn("what a killed process left cannot be cleared up; the next start tries again", "err", line(err))
	}
	return roots, nil
}
