package freshet_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/freshet/freshet"
)

// A cluster of two nodes, both in this process, and a broadcast to them. The
// first node has the control plane, the second joins it with a token. The object
// is a file here; s3://bucket/key is read with the credentials in the environment.
func Example() {
	dir, err := os.MkdirTemp("", "freshet-example-")
	must(err)
	defer os.RemoveAll(dir)
	model := filepath.Join(dir, "model.bin")
	must(os.WriteFile(model, make([]byte, 5_000_000), 0o644))

	ctx := context.Background()
	config := func(name string) freshet.NodeConfig {
		root := filepath.Join(dir, name)
		must(os.Mkdir(root, 0o755))
		return freshet.NodeConfig{
			Agent: true, Name: name, Roots: []string{root}, State: filepath.Join(dir, "state", name),
			Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
		}
	}
	c := config("n1")
	c.ControlPlane = true
	first, err := freshet.Start(ctx, c)
	must(err)
	defer first.Close()

	c = config("n2")
	c.Join = first.Addr()
	c.Token, err = first.NewToken(ctx, 1)
	must(err)
	second, err := freshet.Start(ctx, c)
	must(err)
	defer second.Close()

	must(bring(ctx, first.AdminFile(), "file://"+model, filepath.Join(dir, "{node}", "model.bin")))
	info, err := os.Stat(filepath.Join(dir, "n2", "model.bin"))
	must(err)
	fmt.Println(info.Size(), "bytes on n2")
	// Output:
	// n1 done
	// n2 done
	// 5000000 bytes on n2
}

// bring has a cluster bring an object to all of its nodes, and says of each what came of it.
func bring(ctx context.Context, adminFile, source, dest string) error {
	client, err := freshet.Connect(ctx, adminFile, freshet.ClientOptions{})
	if err != nil {
		return err
	}
	defer client.Close()
	job, err := client.Submit(ctx, freshet.Spec{Source: source, Dest: dest})
	if err != nil {
		return err
	}
	for job, err = range client.Watch(ctx, job.ID) { // until it has ended
		if err != nil {
			return err
		}
	}
	for _, n := range job.Nodes {
		fmt.Println(n.Name, n.State) // and n.Error, where it failed
	}
	return nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
