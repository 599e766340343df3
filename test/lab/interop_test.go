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

// needWireGuard skips the test if the kernel or the machine lacks parts of a kernel
// gateway.
func needWireGuard(t *testing.T) {
	t.Helper()
	if leftOut != "" {
		t.Skip(leftOut)
	}
	scratch := newNamespace(t, serial.Add(1), "scratch", nil)
	if !kernelHas(scratch, "wireguard") {
		t.Skip("interop left out: this kernel has no WireGuard; run: test/guest/run-lab")
	}
	for _, tool := range []string{"wg", "nft"} {
		if _, err := scratch.try(tool, "--version"); err != nil {
			t.Skipf("interop left out: %s does not run (%v); run: apt-get install -y wireguard-tools nftables", tool, err)
		}
	}
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
