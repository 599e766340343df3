//go:build e2e && !nightly

package e2e

import "time"

// The size of a transfer, how long a client tries to connect while a gateway is killed, whether the
// first attempt must succeed otherwise, and how long Services may take: enough on any machine.
const (
	transferSize  = 100 << 20
	connectWithin = time.Minute
	firstTry      = false
	importsWithin = 2 * time.Minute // also answers of DNS and of Services
	podsWithin    = 5 * time.Minute // also EndpointSlices
)
