// Command vulncheck is govulncheck for machines that may be cut off: where the
// vulnerability database cannot be reached it says so in one line and succeeds
// instead of failing a build that could not have been checked. Where it can be
// reached the result, and the exit status, are govulncheck's own.
//
// Its arguments are those of govulncheck.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/vuln/scan"
)

const (
	database     = "https://vuln.go.dev"
	probeTimeout = 5 * time.Second
	scanTimeout  = 5 * time.Minute
)

func main() {
	if err := probe(); err != nil {
		fmt.Printf("govulncheck left out: its database cannot be reached: %v\n", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scanTimeout)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "govulncheck:", err)
		os.Exit(1)
	}
}

// probe reads the small record that tells how fresh the database is.
func probe() error {
	client := http.Client{Timeout: probeTimeout}
	resp, err := client.Get(database + "/index/db.json")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

func run(ctx context.Context, args []string) error {
	cmd := scan.Command(ctx, args...)
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Wait()
}
