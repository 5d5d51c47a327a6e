package swarm

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// BenchmarkBroadcast moves an object from a store in memory to the files of
// nodes in this process, over TLS on loopback, with nothing limited: what it costs a
// node to receive, check, write and pass on one byte.
func BenchmarkBroadcast(b *testing.B) {
	const nodes = 4
	for _, a := range steal.Algorithms {
		b.Run(a, func(b *testing.B) { benchBroadcast(b, a, nodes, 256*unit.MiB) })
	}
}

func benchBroadcast(b *testing.B, a string, nodes int, size unit.Bytes) {
	creds, err := credentials()
	if err != nil {
		b.Fatal(err)
	}
	store := mem.New()
	data := make([]byte, size)
	io.ReadFull(rand.NewChaCha8([32]byte{}), data)
	object := store.Set(key, data)
	ctx, stop := context.WithCancel(b.Context())
	var ports sync.WaitGroup
	defer ports.Wait()
	defer stop()
	dir, err := os.MkdirTemp(shm(), "freshet-bench-")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var configs []Config
	var members []Member
	for i := range nodes {
		port, err := peer.Listen("127.0.0.1:0", peer.Options{Credentials: creds[i], Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		ports.Go(func() { port.Run(ctx) })
		f, err := os.Create(filepath.Join(dir, nodeName(i)))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		members = append(members, Member{Name: nodeName(i), Addr: port.Addr().String()})
		configs = append(configs, Config{
			Job: "bench", Self: i, Algorithm: a, Object: object, Layout: piece.Layout{Size: size, Piece: piece.DefaultSize(size, 0)},
			Store: store, File: f, Network: port, Receive: peer.NewPool(64), Send: peer.NewPool(64),
		})
	}
	b.SetBytes(int64(size) * int64(nodes))
	before := cpu()
	for b.Loop() {
		var wg sync.WaitGroup
		for _, c := range configs {
			c.Members, c.Start = members, time.Now()
			wg.Go(func() {
				if p, err := Run(ctx, c); err != nil || !p.Done {
					b.Errorf("%s: %v", nodeName(c.Self), err)
				}
			})
		}
		wg.Wait()
	}
	delivered := float64(size) * float64(nodes) * float64(b.N) / 1e9
	b.ReportMetric((cpu()-before).Seconds()/delivered, "CPU-s/GB")
}

// shm is a file system in memory, if there is one.
func shm() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
