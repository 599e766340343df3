//go:build lab || nightly

// Package kernelnat compares the packet path with the kernel: the same packets pass the pipeline
// and a router of the kernel's own tunnel device and nftables, and the results are equal, byte by
// byte, except for the differences that the package lists with their reasons.
package kernelnat

import (
	"os"
	"testing"

	"strait.dev/strait/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
