//go:build lab || nightly

// Package forwarding checks what pods send to pods of the other cluster: ping, TCP, UDP and other
// protocols, path MTUs and ICMP errors, super-packets, mapped addresses, and gateways made of
// kernel parts at one end.
package forwarding

import (
	"os"
	"testing"

	"strait.dev/strait/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
