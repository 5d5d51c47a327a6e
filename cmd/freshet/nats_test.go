package main

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"
)

// startNATS starts a NATS server with JetStream, as a user may have one.
func startNATS(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: nats")
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, JetStream: true, StoreDir: ts.MkAbs("nats")})
	ts.Check(err)
	s.Start()
	ts.Defer(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		ts.Fatalf("the NATS server is not ready")
	}
	ts.Setenv("nats", s.ClientURL())
}

// natsHas looks for a text in all keys and values of all buckets.
func natsHas(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: natshas TEXT")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	nc, err := nats.Connect(ts.Getenv("nats"))
	ts.Check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	ts.Check(err)
	var buckets []string
	found := false
	names := js.KeyValueStoreNames(ctx)
	for name := range names.Name() {
		buckets = append(buckets, name)
	}
	ts.Check(names.Error())
	for _, name := range buckets {
		kv, err := js.KeyValue(ctx, name)
		ts.Check(err)
		keys, err := kv.ListKeys(ctx)
		ts.Check(err)
		for key := range keys.Keys() {
			e, err := kv.Get(ctx, key)
			ts.Check(err)
			found = found || strings.Contains(key, args[0]) || bytes.Contains(e.Value(), []byte(args[0]))
		}
	}
	if found == neg {
		ts.Fatalf("buckets %q: some record has %q: %v, want %v", buckets, args[0], found, !neg)
	}
}
