//go:build lab || nightly

package lab

import (
	"net/netip"
	"testing"
)

func TestTCPTransferIsByteExact(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		size := transferBytes(t)
		if w.src.Is6() {
			size /= 8 // the same code paths: enough to wrap every counter of 16 bits
		}
		l := w.to.listenTCP(t, netip.AddrPortFrom(w.real, 5001))
		transfer(t, w.from, l, netip.AddrPortFrom(w.seen, 5001), size, 4)
	})
}

// The options for kernels with broken offloads, on the machine where offloads do most of
// the work.
func TestTransferWithoutSegmentationOffloads(t *testing.T) {
	t.Parallel()
	top := build(t, options{sameMachine: true, flags: []string{"--disable-gso", "--disable-gro"}})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		l := w.to.listenTCP(t, netip.AddrPortFrom(w.real, 5001))
		transfer(t, w.from, l, netip.AddrPortFrom(w.seen, 5001), transferBytes(t)/64, 2)
	})
}

func TestTCPServerSeesTheSenderUnderItsMappedAddress(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		l := w.to.listenTCP(t, netip.AddrPortFrom(w.real, 80))
		w.from.dial(t, "tcp", netip.AddrPortFrom(w.seen, 80))
		if got := acceptedFrom(t, l); got != w.srcSeen {
			t.Errorf("the connection comes from %s, want %s", got, w.srcSeen)
		}
	})
}

func TestSimultaneousTransfersInBothDirectionsAreByteExact(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	var finish []func()
	for _, w := range top.directions() {
		l := w.to.listenTCP(t, netip.AddrPortFrom(w.real, 5001))
		finish = append(finish, startTransfer(t, w.from, l, netip.AddrPortFrom(w.seen, 5001), transferBytes(t)/16, 2))
	}
	for _, f := range finish {
		f()
	}
}
