//go:build lab || nightly

package lab

import "testing"

// netnsWaived lists the scenarios that do not apply to a gateway, by number, with the
// reason.
var netnsWaived = map[int]string{
	12: "marks and sockets bound to an interface need a capability, which the gateway does not have; the kernel routes its packets",
	14: "policy routing, marks and suppressed prefixes are about packets that a host sends into its own WireGuard interface; the gateway has no interface",
}

func TestNetns12_BoundDeviceAndMark(t *testing.T) {
	t.Parallel()
	waive(t, 12)
}
func TestNetns14_PolicyRoutingByMark(t *testing.T) {
	t.Parallel()
	waive(t, 14)
}

func waive(t *testing.T, scenario int) {
	t.Helper()
	t.Skip("waived: " + netnsWaived[scenario])
}
