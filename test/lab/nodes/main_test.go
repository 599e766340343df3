//go:build lab || nightly

// Package nodes checks gateways and nodes: the frames that node kernels send, pings and probes of
// nodes, node ports of kube-proxy, and thousands of nodes.
package nodes

import (
	"os"
	"testing"

	"strait.dev/strait/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
