//go:build lab || nightly

// Package hostile attacks gateways on the real kernel: from nodes, from pods, from the internet,
// and from inside the tunnel by a peer with a valid key. What must be dropped is dropped and
// counted by its reason, other traffic continues, and memory returns to its previous level.
//
// With LAB_HOSTILE_REPORT it writes docs/evidence/hostile.md: see `make hostile`.
package hostile

import (
	"os"
	"testing"

	"strait.dev/strait/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
