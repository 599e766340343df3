//go:build lab || nightly

package lab

import (
	"net/netip"
	"testing"
)

// In these labs a gateway made of the kernel's WireGuard, tunnel device and nftables
// replaces strait: on both sides to prove the lab itself, on one side to prove
// interoperability.

func TestKernelGatewaysJoinTheClusters(t *testing.T) {
	t.Parallel()
	needWireGuard(t)
	top := build(t, options{kernelGateway: [2]bool{true, true}})
	exchangeBothDirections(t, top)
}

func TestInteropStraitWithKernelGateway(t *testing.T) {
	t.Parallel()
	needWireGuard(t)
	top := build(t, options{kernelGateway: [2]bool{false, true}})
	exchangeBothDirections(t, top)
}

func TestInteropKernelGatewayWithStrait(t *testing.T) {
	t.Parallel()
	needWireGuard(t)
	top := build(t, options{kernelGateway: [2]bool{true, false}})
	exchangeBothDirections(t, top)
}

// exchangeBothDirections pings and transfers checked TCP bytes from each pod to the other,
// in both families.
func exchangeBothDirections(t *testing.T, top *topology) {
	t.Helper()
	forEachDirection(t, top, func(t *testing.T, w direction) {
		ping(t, w.from, w.seen, 3)
		l := w.to.listenTCP(t, netip.AddrPortFrom(w.real, 5001))
		transfer(t, w.from, l, netip.AddrPortFrom(w.seen, 5001), 1<<20, 2)
	})
}
