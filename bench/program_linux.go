package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Home is where Debian's programs are: others of the same name, such as those
// of a Python that somebody put in front of Debian's, are not what is measured.
const Home = "/usr/sbin:/usr/bin:/sbin:/bin"

// Program is the path of one, or an error that says how to get it.
func Program(name string) (string, error) {
	if strings.HasPrefix(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(Home) {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("there is no %s in %s; scripts/rivals installs it", name, Home)
}

// Missing says which of these programs there are not, and how to get them.
func Missing(names []string) (err error) {
	for _, name := range names {
		_, e := Program(name)
		err = errors.Join(err, e)
	}
	return err
}

// Says is the version of programs that the first lines make which commands print.
func Says(commands ...[]string) func(context.Context) string {
	return func(ctx context.Context) string {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		var said []string
		for _, argv := range commands {
			p, err := Program(argv[0])
			if err != nil {
				continue
			}
			cmd := exec.CommandContext(ctx, p, argv[1:]...)
			cmd.Env = []string{"PATH=" + Home}
			out, _ := cmd.CombinedOutput() // some say it and then complain
			for line := range strings.Lines(string(out)) {
				if line = strings.TrimSpace(line); line != "" {
					said = append(said, line)
					break
				}
			}
		}
		return strings.Join(said, "; ")
	}
}

// Debian is the command that tells the version of one of Debian's packages.
func Debian(name string) []string {
	return []string{"dpkg-query", "-W", "-f", "${Package} ${Version}\n", name}
}
