package gateway_test

import (
	"bytes"
	"testing"

	"strait.dev/strait/gateway"
)

// A packet of a masqueraded source that does not fit is answered with the MTU, quoted as it
// was sent, and creates no flow; one to a masqueraded source is answered to the far side,
// about the address that the far side knows.
func TestRFC4787REQ13_MasqueradeAnswersWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := withFlows(t, 16, 16)
		f := flow{src: w.foreign, dst: w.seenPodB, from: 5555, df: true}
		if mtu := expectRefusal(t, a, w, sized(tunnelMTU+1, f), tooBig); mtu != tunnelMTU {
			t.Errorf("told of %d, want %d", mtu, tunnelMTU)
		}
		if n := a.Flows().Stats(a.now).Flows; n != 0 {
			t.Errorf("a packet that went nowhere made %d flows", n)
		}
		r := a.fromNode(sized(tunnelMTU, f))
		expectVerdict(t, r, gateway.ToTunnel)
		asked := expect(t, r.Packet, w.gateOut, w.podB, 63)

		back := answering(asked)
		back.df = true
		sent := sized(overlayMTU+1, back)
		as := bytes.Clone(sent)
		r = a.fromTunnel(sent)
		expectDrop(t, r, gateway.TooBig)
		quote, mtu := expectError(t, r.Answer, w.gateOut, w.podB, 64, tooBig)
		if expectQuote(t, quote, as); mtu != overlayMTU {
			t.Errorf("the far side is told of %d, want %d", mtu, overlayMTU)
		}
		expectVerdict(t, a.fromTunnel(sized(overlayMTU, back)), gateway.ToNode)
	}
}
