package main

import (
	"context"
	"fmt"

	"github.com/freshet/freshet/bench"
)

// downloaders are programs that read from S3. Every node downloads all.
func downloaders() []System {
	return []System{
		{
			Name: "flat rclone", Programs: []string{"rclone"}, Version: bench.Says([]string{"rclone", "version"}),
			Tuning: "4 streams a file, as it comes for files of 250 MB and more, here for all",
			Run: func(_ context.Context, t *Trial) error {
				return t.everywhere(func(node string) string {
					return fmt.Sprintf(`export RCLONE_CONFIG_STORE_TYPE=s3 RCLONE_CONFIG_STORE_PROVIDER=Other RCLONE_CONFIG_STORE_ENV_AUTH=true RCLONE_CONFIG_STORE_ENDPOINT=$AWS_ENDPOINT_URL
rclone copy store:b/%s %s --config= --multi-thread-cutoff 1M --multi-thread-streams 4
%s`, prefix, t.Dir(node), t.Through(node))
				})
			},
		},
		{
			Name: "flat aws-cli", Programs: []string{"aws"}, Version: bench.Says([]string{"aws", "--version"}),
			Tuning: "as it comes: 10 requests at a time of 8 MiB each",
			Run: func(_ context.Context, t *Trial) error {
				return t.everywhere(func(node string) string {
					return fmt.Sprintf("aws --endpoint-url $AWS_ENDPOINT_URL s3 cp --recursive --only-show-errors %s %s\n%s", t.source, t.Dir(node), t.Through(node))
				})
			},
		},
	}
}

// everywhere starts a script on every node.
func (t *Trial) everywhere(script func(node string) string) error {
	for _, node := range t.Nodes {
		if err := t.Shell(node, script(node)); err != nil {
			return err
		}
	}
	return nil
}
