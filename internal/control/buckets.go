package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/freshet/freshet/internal/pki"
)

// buckets are the cluster's records, in JetStream key-value buckets.
//
//	bucket   key       value          where
//	jobs     job's ID  Job            file, synced before it is acknowledged
//	courses  job's ID  courses        file; how the nodes' parts of it went, by name
//	files    job's ID  Files          file; of a job of several
//	nodes    name      nodeRecord     file
//	tokens   token's   tokenRecord    file
//	revoked  key       revokedKey     file
//	issued   key       issuedKey      file
//	members  name      Registration   memory; gone memberTTL after the last beat
//
// Each has one writer, the hub, and changes by compare-and-set: should there be
// two hubs by mistake, one of them notices instead of undoing the other's work.
type buckets struct {
	nc                                                            *nats.Conn
	jobs, courses, files, nodes, tokens, revoked, issued, members jetstream.KeyValue
}

// nodeRecord is a node as it is registered.
type nodeRecord struct {
	Registration
	Keys   []nodeKey `json:"keys"` // of its certificates, newest first: who shows another one is not this node
	Joined time.Time `json:"joined"`
	Seen   time.Time `json:"seen,omitzero"` // when it was last known to be up
}

// nodeKey is a certificate that was issued to a node.
type nodeKey struct {
	Key     string    `json:"key"` // as pki.PeerKey names it
	Expires time.Time `json:"expires"`
}

// live are the certificates that have not expired.
func (r *nodeRecord) live(now time.Time) (keys []nodeKey) {
	for _, k := range r.Keys {
		if now.Before(k.Expires) {
			keys = append(keys, k)
		}
	}
	return keys
}

// expires is when the last of the certificates does.
func (r *nodeRecord) expires() (last time.Time) {
	for _, k := range r.Keys {
		if k.Expires.After(last) {
			last = k.Expires
		}
	}
	return last
}

// accepts says whether a key is one of the node's.
func (r *nodeRecord) accepts(key string) bool {
	return slices.ContainsFunc(r.Keys, func(k nodeKey) bool { return k.Key == key })
}

type tokenRecord struct {
	Hash    string    `json:"hash"` // of the secret
	Left    int       `json:"left"` // uses
	Expires time.Time `json:"expires"`
	Made    time.Time `json:"made"`
	Used    time.Time `json:"used,omitzero"`     // when the last node joined with it
	UsedBy  string    `json:"used_by,omitempty"` // that node
}

// within bounds one access to a bucket. A JetStream cluster that loses its
// leader stalls for 5 to 6 seconds.
const within = 15 * time.Second

// openBuckets finds or makes the buckets of a cluster.
func openBuckets(ctx context.Context, nc *nats.Conn, cluster string) (*buckets, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	if _, err := js.AccountInfo(ctx); err != nil {
		if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) || errors.Is(err, nats.ErrNoResponders) {
			return nil, errors.New("NATS has no JetStream (for this account): the control plane keeps its records there; enable it")
		}
		return nil, fmt.Errorf("ask NATS for JetStream: %w", err)
	}
	b := &buckets{nc: nc}
	for _, x := range []struct {
		kv     *jetstream.KeyValue
		config jetstream.KeyValueConfig
	}{
		{&b.jobs, jetstream.KeyValueConfig{Bucket: "jobs", Description: "job records"}},
		{&b.courses, jetstream.KeyValueConfig{Bucket: "courses", Description: "how jobs went on each node, compressed"}},
		{&b.files, jetstream.KeyValueConfig{Bucket: "files", Description: "the files of jobs of several, compressed"}},
		{&b.nodes, jetstream.KeyValueConfig{Bucket: "nodes", Description: "registered nodes"}},
		{&b.tokens, jetstream.KeyValueConfig{Bucket: "tokens", Description: "tokens to join with: hashes, uses, expiry"}},
		{&b.revoked, jetstream.KeyValueConfig{Bucket: "revoked", Description: "certificates of removed nodes, and withdrawn ones"}},
		{&b.issued, jetstream.KeyValueConfig{Bucket: "issued", Description: "certificates of admins and monitors"}},
		{&b.members, jetstream.KeyValueConfig{Bucket: "members", Description: "nodes that are up", Storage: jetstream.MemoryStorage, TTL: memberTTL}},
	} {
		x.config.Bucket = "freshet-" + pki.Short(cluster) + "-" + x.config.Bucket
		x.config.Bucket = strings.ReplaceAll(x.config.Bucket, "…", "")
		x.config.Description = "Freshet: " + x.config.Description
		if *x.kv, err = openBucket(ctx, js, x.config); err != nil {
			return nil, fmt.Errorf("open bucket %s: %w", x.config.Bucket, err)
		}
	}
	return b, nil
}

// openBucket makes a bucket with three replicas where NATS is a cluster, else
// with one. One that exists stays as its operator may have changed it.
func openBucket(ctx context.Context, js jetstream.JetStream, c jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, c.Bucket)
	if err == nil || !errors.Is(err, jetstream.ErrBucketNotFound) {
		return kv, err
	}
	c.Replicas = 3
	if kv, err = js.CreateKeyValue(ctx, c); err == nil {
		return kv, nil
	}
	c.Replicas = 1
	return js.CreateKeyValue(ctx, c)
}

// connectNATS connects to a NATS cluster of the user's. No error repeats a
// URL, since it may hold a password.
func connectNATS(ctx context.Context, urls, creds string) (*nats.Conn, error) {
	var hosts, servers []string
	for s := range strings.SplitSeq(urls, ",") {
		s = strings.TrimSpace(s)
		if !strings.Contains(s, "://") {
			s = "nats://" + s
		}
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			return nil, errors.New("NATS: unreadable URL: want nats://HOST:4222, several separated by commas")
		}
		switch u.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			return nil, fmt.Errorf("NATS: URL scheme %q: want nats or tls", oneLine(u.Scheme))
		}
		hosts, servers = append(hosts, u.Host), append(servers, s)
	}
	where := strings.Join(hosts, ", ")
	opts := []nats.Option{nats.Name("freshet hub"), nats.MaxReconnects(-1), nats.CustomReconnectDelay(jitter), nats.Timeout(5 * time.Second), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	if creds != "" {
		opts = append(opts, nats.UserCredentials(creds))
	}
	if deadline, ok := ctx.Deadline(); ok {
		opts = append(opts, nats.Timeout(max(time.Until(deadline), time.Millisecond)))
	}
	nc, err := nats.Connect(strings.Join(servers, ","), opts...)
	if err != nil {
		text := err.Error()
		for _, s := range servers {
			if u, _ := url.Parse(s); u.User != nil {
				text = strings.ReplaceAll(strings.ReplaceAll(text, s, u.Host), u.User.String(), "")
				if p, ok := u.User.Password(); ok && p != "" {
					text = strings.ReplaceAll(text, p, "")
				}
			}
		}
		return nil, fmt.Errorf("NATS at %s: %s", where, oneLine(text))
	}
	return nc, nil
}

// put writes v under key if the record's revision still is rev (0: if there is
// none), and returns the new revision; errChangedByOther if it is not.
func put(ctx context.Context, kv jetstream.KeyValue, key string, v any, rev uint64) (uint64, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var next uint64
	if rev == 0 {
		next, err = kv.Create(ctx, key, b)
	} else {
		next, err = kv.Update(ctx, key, b, rev)
	}
	switch {
	case err == nil:
		return next, nil
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return 0, errChangedByOther
	}
	return 0, fmt.Errorf("write the record of %s: %w", key, err)
}

// putOwn is put for records of which we are the only writer: if what is there
// is what we wanted to write, it was us, and the answer got lost. Where others
// write too that would be wrong: two may take the last but one use of a token
// at the same moment, and both want to write the same.
func putOwn(ctx context.Context, kv jetstream.KeyValue, key string, v any, rev uint64) (uint64, error) {
	next, err := put(ctx, kv, key, v, rev)
	if !errors.Is(err, errChangedByOther) {
		return next, err
	}
	want, merr := json.Marshal(v)
	gctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if e, gerr := kv.Get(gctx, key); merr == nil && gerr == nil && bytes.Equal(e.Value(), want) {
		return e.Revision(), nil
	}
	return 0, err
}

// errChangedByOther is a compare-and-set that found another value.
var errChangedByOther = errors.New("record was changed by somebody else meanwhile")

// errUnreadable is a record that is there and makes no sense.
var errUnreadable = errors.New("unreadable")

// get reads the record under key into v; jetstream.ErrKeyNotFound if there is
// none, errUnreadable if it cannot be read.
func get(ctx context.Context, kv jetstream.KeyValue, key string, v any) (rev uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	e, err := kv.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(e.Value(), v); err != nil {
		return 0, fmt.Errorf("record of %s: %w: %w", key, errUnreadable, err)
	}
	return e.Revision(), nil
}

// all calls f for every record of a bucket.
func all(ctx context.Context, kv jetstream.KeyValue, f func(key string, value []byte, rev uint64), opts ...jetstream.WatchOpt) error {
	w, err := kv.WatchAll(ctx, append(opts, jetstream.IgnoreDeletes())...)
	if err != nil {
		return err
	}
	defer w.Stop()
	timer := time.NewTimer(4 * within)
	defer timer.Stop()
	for {
		select {
		case e, ok := <-w.Updates():
			if !ok {
				return errors.New("NATS closed the reading of a bucket")
			}
			if e == nil {
				return nil
			}
			f(e.Key(), e.Value(), e.Revision())
		case <-timer.C:
			return errors.New("NATS took too long to list a bucket")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drop removes a record and its history.
func drop(ctx context.Context, kv jetstream.KeyValue, key string) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return kv.Purge(ctx, key)
}
