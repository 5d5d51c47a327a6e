//go:build !linux

package main

import (
	"context"
	"errors"
)

// There is a laboratory on Linux alone; a report can be made anywhere.
func measure(context.Context, string, string, settings) error {
	return errors.New("the laboratory is made of Linux's network namespaces, and this is another system")
}
