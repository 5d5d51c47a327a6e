package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/freshet/freshet/internal/form"
)

// asLongAs does what asks no ctx, such as waiting for who writes into a pipe. When ctx ends first it is left behind: the process ends soon after.
func asLongAs[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := do()
		done <- outcome{v, err}
	}()
	select {
	case o := <-done:
		return o.v, o.err
	case <-ctx.Done():
		var none T
		return none, errInterrupted
	}
}

// readText reads a file of at most form.MaxText bytes, or standard input if its name is "-".
func readText(ctx context.Context, name string) ([]byte, error) {
	return asLongAs(ctx, func() ([]byte, error) {
		f := os.Stdin
		if name != "-" {
			var err error
			if f, err = os.Open(name); err != nil {
				return nil, err
			}
			defer f.Close()
		}
		return form.Read(name, f)
	})
}

// writeFile makes text a file's, all of it: if that fails what was there stays. What is no plain file, such as a link, a pipe or a device, is written as it is.
func writeFile(name string, text []byte) error {
	old, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !old.Mode().IsRegular():
		return os.WriteFile(name, text, 0o666)
	default: // one that may not be written is not replaced either
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		f.Close()
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(name), ".freshet-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		if old != nil {
			err = f.Chmod(old.Mode().Perm())
		}
		_, failed := f.Write(text)
		if err = cmp.Or(err, failed, f.Close()); err == nil {
			err = os.Rename(f.Name(), name)
		}
		if err != nil {
			os.Remove(f.Name())
		}
	}
	if err != nil { // without the name that it has meanwhile
		return fmt.Errorf("write %s: %w", name, cmp.Or(errors.Unwrap(err), err))
	}
	return nil
}

// overwrites refuses to write what a flag says over one of the files that are read, "-" is standard input; or into a directory that is not there, since that is
// better said before all the work than after it.
func overwrites(flag, name string, inputs ...string) error {
	if name == "" {
		return nil
	}
	out, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if dir, err := os.Stat(filepath.Dir(name)); err != nil || !dir.IsDir() {
			return usage("--%s %s: there is no directory %s; make it first", flag, name, filepath.Dir(name))
		}
	}
	if err != nil || !out.Mode().IsRegular() {
		return nil
	}
	for _, input := range inputs {
		stat := func() (fs.FileInfo, error) { return os.Stat(input) }
		if input == "-" {
			stat = os.Stdin.Stat
		}
		if in, err := stat(); err == nil && os.SameFile(in, out) {
			return usage("--%s %s: that is what is read; want another file", flag, name)
		}
	}
	return nil
}

// printed writes what print prints, and returns why that could not be written.
func printed(w io.Writer, print func(w io.Writer)) error {
	b := bufio.NewWriter(w)
	print(b)
	return b.Flush()
}
