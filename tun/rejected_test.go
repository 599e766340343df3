package tun

import (
	"net/netip"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/test/wait"
)

// WireGuard drops a source outside of AllowedIPs before the pipeline sees it: it is counted as
// the pipeline would count it.
func TestT3_ASourceThatWireGuardRejectsIsCounted(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	narrow := silent(b.link("a-0", a))
	narrow.Allowed = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	setLinks(t, b, narrow)
	wait.Until(t, "the rejected packet is counted", func() bool {
		a.send(t, tcpPacket(pod, netip.MustParseAddr("10.71.2.9"), []byte("strange"), false))
		return b.fabric.Status()[0].Ingress.Dropped(gateway.SourceNotGranted) > 0
	})
	if b.received("strange") {
		t.Error("it arrived")
	}
}
