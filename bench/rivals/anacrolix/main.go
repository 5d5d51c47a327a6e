// Command anacrolix is a BitTorrent client out of the library of that name. It
// downloads what a torrent names, marks that it has it, and seeds until it is
// killed. It is a module of its own, so that the library is none of Freshet's.
//
//	anacrolix TORRENT DIRECTORY MARK ADDRESS
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/anacrolix/torrent"
	"github.com/anacrolix/torrent/metainfo"
	"golang.org/x/time/rate"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		b, _ := debug.ReadBuildInfo()
		for _, m := range b.Deps {
			if m.Path == "github.com/anacrolix/torrent" {
				fmt.Println(m.Path, m.Version)
			}
		}
		return
	}
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "anacrolix: want TORRENT DIRECTORY MARK ADDRESS")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "anacrolix:", err)
		os.Exit(1)
	}
}

func run(file, dir, mark, address string) error {
	m, err := metainfo.LoadFromFile(file)
	if err != nil {
		return err
	}
	c := torrent.NewDefaultClientConfig()
	c.DataDir, c.Seed = dir, true
	c.ListenHost, c.ListenPort = func(string) string { return address }, 6881
	c.NoDHT, c.NoDefaultPortForwarding, c.DisableIPv6 = true, true, true // there is nobody to ask
	c.DisableUTP, c.DisableWebtorrent = true, true
	c.HeaderObfuscationPolicy.Preferred = false
	c.EstablishedConnsPerTorrent, c.HalfOpenConnsPerTorrent, c.TotalHalfOpenConns = 200, 200, 200
	c.DialRateLimiter = rate.NewLimiter(rate.Inf, 0)
	client, err := torrent.NewClient(c)
	if err != nil {
		return err
	}
	defer client.Close()
	t, err := client.AddTorrent(m)
	if err != nil {
		return err
	}
	<-t.GotInfo()
	t.DownloadAll()
	<-t.Complete().On()
	for _, f := range t.Files() {
		if err := sync(filepath.Join(dir, filepath.FromSlash(f.Path()))); err != nil {
			return err
		}
	}
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		return err
	}
	select {}
}

// sync waits until a file is on the disk.
func sync(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
