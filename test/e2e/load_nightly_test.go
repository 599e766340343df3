//go:build nightly

package e2e

import "time"

// The size of a transfer, how long a client tries to connect while a gateway is killed, and whether
// the first attempt must succeed otherwise.
const (
	transferSize  = 1 << 30
	connectWithin = time.Second
	firstTry      = true
)

// The times that the conformance suite of the Multi-Cluster Services API allows.
const (
	importsWithin = 20 * time.Second // also answers of DNS and of Services
	podsWithin    = time.Minute      // also EndpointSlices
)
