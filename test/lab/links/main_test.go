//go:build lab || nightly

// Package links checks the links between gateways: which end initiates, on which ports, with
// which keys, and what is between them, such as load balancers.
package links

import (
	"os"
	"testing"

	"strait.dev/strait/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
