//go:build e2e && !nightly

package e2e

import "time"

// The size of a transfer, how long a client tries to connect while a gateway is killed, and whether
// the first attempt must succeed otherwise: enough on any machine.
const (
	transferSize  = 100 << 20
	connectWithin = time.Minute
	firstTry      = false
)
