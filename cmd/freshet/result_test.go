package main

import (
	"bytes"
	"testing"
)

// A node that says of its recording that there is always more is not believed for ever.
func TestRecordingsAreCapped(t *testing.T) {
	var b bytes.Buffer
	c := &capped{&b, 10}
	if n, err := c.Write([]byte("12345678")); n != 8 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if _, err := c.Write([]byte("9ab")); err == nil {
		t.Error("more was taken than fits")
	}
	if b.String() != "12345678" {
		t.Errorf("got %q", b.String())
	}
}
