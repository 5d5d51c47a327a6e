package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/internal/lab"
)

//go:embed mpi/bcast.py
var mpiProgram []byte

//go:embed mpi/yield.c
var mpiYield []byte

// openMPI is MPI_Bcast among all nodes, part by part; its rank 0 reads from the
// store. The start of the ranks is in the time, as mpirun is what a user types.
func openMPI() System {
	return System{
		Name: "mpi bcast", Programs: []string{"mpirun", "python3", "cc"},
		Version: bench.Says([]string{"mpirun", "--version"}, bench.Debian("python3-mpi4py")),
		Tuning: "a pipeline in segments of 64 KiB is forced, 4 MiB a call; over TCP alone; who waits sleeps 0.2 ms at a time, where Open MPI would turn in a loop: " +
			"here all ranks share the processors of one machine; rank 0 alone reads from the store, so that its rate there is the most that all get",
		Prepare: func(ctx context.Context, t *Trial) error {
			var names strings.Builder
			for _, node := range t.Nodes {
				fmt.Fprintf(&names, "%v %s\n", t.Lab.Addr(node), node)
			}
			for name, text := range map[string][]byte{"hosts": []byte(names.String()), "bcast.py": mpiProgram, "yield.c": mpiYield} {
				if err := os.WriteFile(filepath.Join(t.Root, name), text, 0o644); err != nil {
					return err
				}
			}
			cc := exec.CommandContext(ctx, "cc", "-O2", "-shared", "-fPIC", "-o", filepath.Join(t.Root, "yield.so"), filepath.Join(t.Root, "yield.c"))
			if out, err := cc.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", cc, err, out)
			}
			return nil
		},
		Run: func(_ context.Context, t *Trial) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			t.words = append(t.words, self, "rivals", t.Lab.Name(), "$LAB")
			agent := strings.Join([]string{self, "enter", t.Lab.Name(), filepath.Join(t.Root, "hosts")}, " ")
			var addrs []string
			for _, node := range t.Nodes {
				addrs = append(addrs, t.Lab.Addr(node).String())
			}
			args := []string{"mpirun", "--allow-run-as-root", "--host", strings.Join(addrs, ","), "--map-by", "node",
				"--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "routed", "direct",
				"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "10.64.0.0/16", "--mca", "oob_tcp_if_include", "10.64.0.0/16",
				"--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_bcast_algorithm", "3", "--mca", "coll_tuned_bcast_algorithm_segmentsize", "65536",
				"--mca", "mpi_yield_when_idle", "1", "--mca", "hwloc_base_binding_policy", "none", "-x", "LD_PRELOAD=" + filepath.Join(t.Root, "yield.so"),
				"python3", filepath.Join(t.Root, "bcast.py"), t.Dir("{node}"), t.Mark("{node}"), fmt.Sprint(int64(t.Each))}
			for _, f := range t.Files {
				args = append(args, t.Web(prefix+"/"+f))
			}
			return t.Start(t.Nodes[0], args...)
		},
	}
}

// enter becomes a command in a host of the lab: mpirun starts its ranks by it,
// as it would by ssh.
//
//	enter LAB FILE ADDRESS COMMAND…   FILE has the lines of /etc/hosts
func enter(args []string) error {
	if len(args) < 4 {
		return errors.New("enter: want LAB FILE ADDRESS COMMAND")
	}
	names, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(names)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == args[2] {
			// The command is text for a shell, as it is for ssh.
			return lab.Exec(args[0], f[1], string(names), []string{"/bin/sh", "-c", strings.Join(args[3:], " ")})
		}
	}
	return fmt.Errorf("enter: %s has no host %s", args[1], args[2])
}
