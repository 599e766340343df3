//go:build lab || nightly

// Package process checks a gateway as a process: privileges, reloads, termination, captures, and
// what happens when it is stopped, overloaded, or short of memory or file descriptors.
package process

import (
	"os"
	"testing"

	"strait.dev/strait/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
