package gateway_test

import (
	"encoding/binary"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

func clampAt(n uint16) func(*config.Gateway) {
	return func(c *config.Gateway) { c.MSSClamp.Value = n }
}

func clampOff(c *config.Gateway) { c.MSSClamp.Off = true }

func TestRFC6691_SYNsAreClampedBothWaysAndOnlyDownwards(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		fits := uint16(tunnelMTU - headers(w))
		for _, c := range []struct {
			name       string
			edit       func(*config.Gateway)
			sent, want uint16
		}{
			{"to what fits", nil, 8960, fits},
			{"one above what fits", nil, fits + 1, fits},
			{"what fits", nil, fits, fits},
			{"less than fits", nil, 536, 536},
			{"to a number", clampAt(1200), fits, 1200},
			{"less than a number", clampAt(1200), 1199, 1199},
			{"off", clampOff, 8960, 8960},
		} {
			for _, flags := range []byte{syn, syn | ack} {
				edits := []func(*config.Gateway){}
				if c.edit != nil {
					edits = append(edits, c.edit)
				}
				a := newA(t, edits...)
				out := a.fromNode(flow{src: w.podA, dst: w.seenPodB}.tcp(flags, mss(c.sent), nil))
				expectVerdict(t, out, gateway.ToTunnel)
				in := a.fromTunnel(flow{src: w.podB, dst: w.podA}.tcp(flags, mss(c.sent), nil))
				expectVerdict(t, in, gateway.ToNode)
				for side, r := range map[string]gateway.Result{"out": out, "in": in} {
					if got := announced(t, r.Packet); got != c.want {
						t.Errorf("%s, %s, IPv%d: MSS %d became %d, want %d", c.name, side, r.Version, c.sent, got, c.want)
					}
				}
			}
		}
	}
}

// announced is the MSS in a SYN with no other option; its checksum is right.
func announced(t *testing.T, b []byte) uint16 {
	t.Helper()
	return binary.BigEndian.Uint16(receive(t, b).upper[22:])
}

func TestRFC6691_OnlySYNsAreClamped(t *testing.T) {
	t.Parallel()
	a := newA(t)
	r := a.fromNode(flow{src: v4.podA, dst: v4.seenPodB}.tcp(ack, mss(8960), nil))
	if got := announced(t, r.Packet); got != 8960 {
		t.Errorf("clamped to %d", got)
	}
	r = a.fromNode(flow{src: v4.podA, dst: v4.seenPodB}.tcp(syn, nil, nil))
	if n := len(receive(t, r.Packet).upper); n != 20 {
		t.Errorf("a SYN without MSS became %d bytes long", n)
	}
}

// The SYN of a pod on the gateway's own machine has an unfinished checksum.
func TestRFC6691_SYNsWithUnfinishedChecksumsAreClamped(t *testing.T) {
	t.Parallel()
	r := newA(t).fromNode(partial(flow{src: v4.podA, dst: v4.seenPodB}).tcp(syn, mss(8960), nil))
	if got := announced(t, r.Packet); got != tunnelMTU-40 {
		t.Errorf("MSS %d", got)
	}
}
