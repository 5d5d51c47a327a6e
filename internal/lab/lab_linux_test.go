package lab

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/unit"
)

func TestHostsReachEachOther(t *testing.T) {
	l := New(t, Star(hosts(3), Link{Rate: 100 * unit.Mbit}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()

	ln, err := l.Listen("n2", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := strings.Cut(ln.Addr().String(), ":")
	go func() { // ends with the listener, or the connection
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, c.RemoteAddr())
			c.Close()
		}
	}()
	for _, h := range hosts(3) {
		c, err := l.Dial(ctx, h, "n2:"+port)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		c.Close()
		if want := l.Addr(h).String() + ":"; err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("n2 saw a connection from %s, error %v; want from %s", got, err, want)
		}
	}
}

func TestProcessesRunInTheirHost(t *testing.T) {
	l := New(t, Star(hosts(2), Link{}))
	var out strings.Builder
	cmd := exec.Command("sh", "-c", "hostname; ip -4 -o addr show sw; cat /proc/sys/net/ipv4/tcp_congestion_control")
	cmd.Stdout = &out
	if err := l.Start("n1", cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"n1\n", l.Addr("n1").String() + "/16", "cubic"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %q, want it to have %q", out.String(), want)
		}
	}
}
