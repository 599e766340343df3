//go:build lab || nightly

package forwarding

import (
	"net/netip"
	"testing"

	"strait.dev/strait/test/lab"
)

// In these labs a gateway made of the kernel's WireGuard, tunnel device and nftables
// replaces strait: on both sides to prove the lab itself, on one side to prove
// interoperability.

func TestKernelGatewaysJoinTheClusters(t *testing.T) {
	t.Parallel()
	lab.NeedWireGuard(t)
	top := lab.Build(t, lab.Options{KernelGateway: [2]bool{true, true}})
	exchangeBothDirections(t, top)
}

func TestInteropStraitWithKernelGateway(t *testing.T) {
	t.Parallel()
	lab.NeedWireGuard(t)
	top := lab.Build(t, lab.Options{KernelGateway: [2]bool{false, true}})
	exchangeBothDirections(t, top)
}

func TestInteropKernelGatewayWithStrait(t *testing.T) {
	t.Parallel()
	lab.NeedWireGuard(t)
	top := lab.Build(t, lab.Options{KernelGateway: [2]bool{true, false}})
	exchangeBothDirections(t, top)
}

// exchangeBothDirections pings and transfers checked TCP bytes from each pod to the other,
// in both families.
func exchangeBothDirections(t *testing.T, top *lab.Topology) {
	t.Helper()
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		lab.Ping(t, w.From, w.Seen, 3)
		l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 5001))
		lab.Transfer(t, w.From, l, netip.AddrPortFrom(w.Seen, 5001), 1<<20, 2)
	})
}
