//go:build lab || nightly

// Package wireguard is the scenarios of WireGuard's own netns.sh, with a gateway at one end and
// a reference at the other: wireguard-go and the kernel's WireGuard. The names of the tests have
// the numbers of the scenarios.
package wireguard

import (
	"os"
	"testing"

	"strait.dev/strait/test/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
