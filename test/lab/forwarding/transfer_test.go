//go:build lab || nightly

package forwarding

import (
	"net/netip"
	"testing"

	"strait.dev/strait/test/lab"
)

func TestTCPTransferIsByteExact(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		size := lab.TransferBytes(t)
		if w.Src.Is6() {
			size /= 8 // the same code paths: enough to wrap every counter of 16 bits
		}
		l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 5001))
		lab.Transfer(t, w.From, l, netip.AddrPortFrom(w.Seen, 5001), size, 4)
	})
}

// The options for kernels with broken offloads, on the machine where offloads do most of
// the work.
func TestTransferWithoutSegmentationOffloads(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{SameMachine: true, Flags: []string{"--disable-gso", "--disable-gro"}})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 5001))
		lab.Transfer(t, w.From, l, netip.AddrPortFrom(w.Seen, 5001), lab.TransferBytes(t)/64, 2)
	})
}

func TestTCPServerSeesTheSenderUnderItsMappedAddress(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 80))
		w.From.Dial(t, "tcp", netip.AddrPortFrom(w.Seen, 80))
		if got := lab.AcceptedFrom(t, l); got != w.SrcSeen {
			t.Errorf("the connection comes from %s, want %s", got, w.SrcSeen)
		}
	})
}

func TestSimultaneousTransfersInBothDirectionsAreByteExact(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	var finish []func()
	for _, w := range top.Directions() {
		l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 5001))
		finish = append(finish, lab.StartTransfer(t, w.From, l, netip.AddrPortFrom(w.Seen, 5001), lab.TransferBytes(t)/16, 2))
	}
	for _, f := range finish {
		f()
	}
}
