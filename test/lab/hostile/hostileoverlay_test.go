//go:build lab || nightly

package hostile

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"strait.dev/strait/test/lab"
)

// validPacket returns a marked but otherwise valid packet: from a pod of A to the pod of B.
func (h *hostile) validPacket(n uint8) []byte {
	a := h.top.A
	return lab.UDPTo(netip.AddrPortFrom(a.Pod4, 9), netip.AddrPortFrom(lab.Addr("10.71.2.9"), 9), marked(n, 64))
}

// asNode sends from the node's own address, as root on the node can.
func (h *hostile) asNode(t *testing.T, encapsulation string) sender {
	return fromSocket(t, h.top.A.Node, h.top.A.Bridge4, h.top.A.OverlayAt(encapsulation))
}

// each returns the same packet for every i.
func each(packet []byte) func(int) []byte { return func(int) []byte { return packet } }

// forgedFrames: T1, a sender that is not a node sends frames, or a node sends frames of
// another one.
func (h *hostile) forgedFrames() []attack {
	a, e := h.top.A, h.attackers
	frames := func(n uint8, id uint32) []byte { return lab.FrameOf(a.Encapsulation, id, h.validPacket(n)) }
	return []attack{{
		threat: "T1", name: "frames from a pod's ordinary UDP socket", rate: 10000,
		counted: []string{"a/egress/unknown_source"}, complete: true,
		floods: func(t *testing.T, n uint8) []shots {
			return []shots{
				{fromSocket(t, e.pod, e.pod4, a.OverlayAt("geneve")), each(lab.FrameOf("geneve", lab.VNI, h.validPacket(n)))},
				{fromSocket(t, e.pod, e.pod4, a.OverlayAt("vxlan")), each(lab.FrameOf("vxlan", lab.VNI, h.validPacket(n)))},
			}
		},
	}, {
		threat: "T1", name: "frames from a pod with an unassigned source address", rate: 10000,
		counted: []string{"a/egress/unknown_source"}, complete: true,
		floods: func(t *testing.T, n uint8) []shots {
			to := a.OverlayAt(a.Encapsulation)
			forged := lab.UDPTo(netip.AddrPortFrom(nobodysAddr, 9), to, frames(n, lab.VNI))
			return []shots{{fromAnywhere(t, e.pod, to.Addr()), each(forged)}}
		},
	}, {
		threat: "T1", name: "frames from a pod with its node's address, which the node's kernel refuses to forward", rate: 10000,
		floods: func(t *testing.T, n uint8) []shots {
			to := a.OverlayAt(a.Encapsulation)
			forged := lab.UDPTo(netip.AddrPortFrom(a.Bridge4, 9), to, frames(n, lab.VNI))
			return []shots{{fromAnywhere(t, e.pod, to.Addr()), each(forged)}}
		},
	}, {
		threat: "T1", name: "frames of a node with random VNIs", rate: 20000,
		counted: []string{"a/egress/wrong_vni"}, complete: true,
		floods: func(t *testing.T, n uint8) []shots {
			return []shots{{h.asNode(t, a.Encapsulation), func(i int) []byte {
				return frames(n, uint32(lab.VNI+1+i)&0xffffff) // starts with the VNI of node-2
			}}}
		},
	}, {
		threat: "T1", name: "frames of a node in the other encapsulation", rate: 10000,
		counted: []string{"a/egress/wrong_vni"}, complete: true,
		floods: func(t *testing.T, n uint8) []shots {
			other := map[string]string{"geneve": "vxlan", "vxlan": "geneve"}[a.Encapsulation]
			return []shots{{h.asNode(t, other), each(lab.FrameOf(other, lab.VNI, h.validPacket(n)))}}
		},
	}, {
		threat: "T1", name: "tunnel headers of random bytes", rate: 10000,
		counted: []string{"a/egress/frame_truncated", "a/egress/geneve_version", "a/egress/geneve_control", "a/egress/geneve_critical",
			"a/egress/geneve_options", "a/egress/geneve_protocol", "a/egress/vxlan_flags", "a/egress/wrong_vni"},
		complete: true,
		floods: func(t *testing.T, n uint8) []shots {
			var all []shots
			for _, encapsulation := range []string{"geneve", "vxlan"} {
				random := rand.New(rand.NewPCG(1, uint64(n)))
				all = append(all, shots{h.asNode(t, encapsulation), func(i int) []byte {
					b := lab.FrameOf(encapsulation, lab.VNI, h.validPacket(n))
					for at := range 8 {
						b[at] = byte(random.Uint32())
					}
					if encapsulation == "geneve" && i%2 == 0 {
						b[0] &= 0x3f // otherwise three of four have another version
					}
					if i%8 == 0 {
						b = b[:random.IntN(8+14)]
					}
					return b
				}})
			}
			return all
		},
	}}
}

// spoofedSources: T2, a node sends packets whose sources are not behind it.
func (h *hostile) spoofedSources() []attack {
	a := h.top.A
	from := func(name, reason, to4, to6 string, sources ...string) attack {
		return attack{
			threat: "T2", name: name, rate: 10000, counted: []string{"a/egress/" + reason}, complete: true,
			floods: func(t *testing.T, n uint8) []shots {
				var packets [][]byte
				for _, source := range lab.Addrs(sources...) {
					to := lab.Addr([2]string{to4, to6}[lab.Family(source)])
					packets = append(packets, lab.FrameOf(a.Encapsulation, lab.VNI,
						lab.UDPTo(netip.AddrPortFrom(source, 9), netip.AddrPortFrom(to, 9), marked(n, 64))))
				}
				return []shots{{h.asNode(t, a.Encapsulation), func(i int) []byte { return packets[i%len(packets)] }}}
			},
		}
	}
	const pod4, pod6 = "10.71.2.9", "fd00:71:0:2::9"
	return []attack{
		from("sources of another node, its pods, the gateway, and of external addresses", "spoofed_source", pod4, pod6,
			"10.0.3.7", "fd00:10:0:3::7", "10.80.0.12", "fd00:80::12", "10.80.0.1", "fd00:80::1", "10.70.0.1", "fd00:70::1", "10.70.0.11"),
		from("sources of the other cluster, mapped and unmapped", "spoofed_source", pod4, pod6,
			"10.71.2.9", "fd00:71:0:2::9", "10.73.0.11", "10.0.2.9", "fd00:10:0:2::9"),
		from("unassigned sources", "spoofed_source", pod4, pod6, "8.8.8.8", "192.168.1.1", "2001:db8::1", "100.64.0.1"),
		from("martian sources", "martian", pod4, pod6, "0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1"),
		from("sources of another node to the gateway itself and to pods of this side", "spoofed_source", "10.80.0.1", "fd00:80::1",
			"10.0.3.7", "fd00:10:0:3::7", "10.71.2.9", "8.8.8.8"),
	}
}
