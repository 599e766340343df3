//go:build lab || nightly

package kernelnat

import (
	"fmt"
	"slices"
	"testing"

	"strait.dev/strait/internal/netns"
	"strait.dev/strait/test/lab"
)

func TestG1_G2_G3_G4_G5_G6_G7_G8_G9_G10_PipelineAndKernelAgreeOnIllFormedGeneve(t *testing.T) {
	k := newKernelRouter(t, "geneve", statelessRules(), statelessRoutes)
	judge(t, k, newPipeline(t, k.encapsulation), true, slices.Concat(invalidGeneve(k), invalidEthernet(k)))
}

func TestRFC7348_RFC7348Flag_RFC7348Reserved_RFC7348VLAN_PipelineAndKernelAgreeOnIllFormedVXLAN(t *testing.T) {
	k := newKernelRouter(t, "vxlan", statelessRules(), statelessRoutes)
	judge(t, k, newPipeline(t, k.encapsulation), true, slices.Concat(invalidVXLAN(k), invalidEthernet(k)))
}

// framed makes a fault of a valid frame and its modification.
func framed(k *kernelRouter, name, why string, spoil func(frame []byte) []byte) fault {
	return fault{name, func() sample {
		h := header4{id: uint16(k.keyOf(0)), ttl: 64, proto: 253, src: lab.Addr("10.0.1.5"), dst: lab.Addr("10.71.9.9")}
		h.payload = make([]byte, 30)
		s := sample{ip: h.packet()}
		s.frame = spoil(datagramOf(k.encapsulation, s))
		return s
	}, why}
}

// set overwrites bytes of the frame.
func set(at int, with ...byte) func([]byte) []byte {
	return func(frame []byte) []byte { return lab.Edit(frame, at, with...) }
}

// cutTo keeps the first n bytes of the frame.
func cutTo(n int) func([]byte) []byte { return func(frame []byte) []byte { return frame[:n] } }

// invalidGeneve returns the faults of RFC 8926 section 3.4 and 3.5.
func invalidGeneve(k *kernelRouter) (faults []fault) {
	add := func(name, why string, spoil func([]byte) []byte) {
		faults = append(faults, framed(k, name, why, spoil))
	}
	options := func(words ...byte) func([]byte) []byte {
		return func(frame []byte) []byte {
			return slices.Concat(lab.Edit(frame, 0, byte(len(words)/4))[:8], words, frame[8:])
		}
	}
	for version := byte(1); version < 4; version++ {
		add(fmt.Sprintf("G1: version %d", version), "", set(0, version<<6))
	}
	add("G2: control packet", "the kernel passes control packets on; RFC 8926 section 3.4 forbids to forward them", set(1, 0x80))
	add("G3: critical options are said to be there", "", set(1, 0x40))
	add("G4: an option that is not critical", "", options(1, 2, 3, 1, 0, 0, 0, 0))
	add("G4: many options that are not critical", "", options(1, 2, 3, 1, 0, 0, 0, 0, 1, 2, 4, 0, 1, 2, 5, 0))
	add("G4: a critical option, and the C bit", "", func(frame []byte) []byte { return lab.Edit(options(1, 2, 0x83, 0)(frame), 1, 0x40) })
	add("G4: a critical option without the C bit", "the kernel looks at the C bit alone; what must be understood is not", options(1, 2, 0x83, 0))
	add("G5: an option longer than the options", "the kernel does not parse options here; RFC 8926 section 3.5.1 requires a drop", options(1, 2, 3, 5, 0, 0, 0, 0))
	add("G5: options beyond the datagram", "", set(0, 0x3f))
	for bit := range 6 {
		add(fmt.Sprintf("G6: reserved bit %d of the first word", bit), "", set(1, 1<<bit))
	}
	for bit := range 8 {
		add(fmt.Sprintf("G6: reserved bit %d of the second word", bit), "", set(7, 1<<bit))
	}
	for _, protocol := range []uint16{0x0800, 0x86dd, 0x0806, 0, 0xffff, 0x6559} {
		add(fmt.Sprintf("G7: protocol %04x", protocol), "", set(2, byte(protocol>>8), byte(protocol)))
	}
	add("G8: another VNI", "", set(6, 102))
	add("G8: VNI 0", "", set(4, 0, 0, 0))
	faults = append(faults, fromOutsider(k, ""))
	for _, n := range []int{1, 4, 7, 8} {
		add(fmt.Sprintf("cut to %d bytes", n), "", cutTo(n))
	}
	return faults
}

// invalidVXLAN returns the faults of RFC 7348 section 5.
func invalidVXLAN(k *kernelRouter) (faults []fault) {
	const reserved = "the kernel drops what has a reserved bit set; RFC 7348 section 5 has receivers ignore it"
	add := func(name, why string, spoil func([]byte) []byte) {
		faults = append(faults, framed(k, name, why, spoil))
	}
	add("no valid VNI", "", set(0, 0))
	add("every flag but that of the VNI", "", set(0, 0xf7))
	for bit := range 8 {
		if bit != 3 {
			add(fmt.Sprintf("reserved flag %d", bit), reserved, set(0, 8|1<<bit))
		}
	}
	for at := 1; at < 4; at++ {
		add(fmt.Sprintf("reserved byte %d", at), reserved, set(at, 1))
	}
	add("reserved byte 7", reserved, set(7, 1))
	add("another VNI", "", set(6, 102))
	add("VNI 0", "", set(4, 0, 0, 0))
	faults = append(faults, fromOutsider(k, "a kernel VXLAN device accepts frames from every source; strait accepts them from the node alone"))
	for _, n := range []int{1, 4, 7, 8} {
		add(fmt.Sprintf("cut to %d bytes", n), "", cutTo(n))
	}
	return faults
}

// fromOutsider returns a valid frame from an address that is not the node's.
func fromOutsider(k *kernelRouter, why string) fault {
	f := framed(k, "G9: outer source of another host", why, func(frame []byte) []byte { return frame })
	honest := f.make
	f.make = func() sample {
		s := honest()
		s.outsider = true
		return s
	}
	return f
}

// invalidEthernet returns faults of the inner frame.
func invalidEthernet(k *kernelRouter) (faults []fault) {
	const dst, src, kind, end = 8, 8 + 6, 8 + 12, 8 + 14
	add := func(name, why string, spoil func([]byte) []byte) {
		faults = append(faults, framed(k, name, why, spoil))
	}
	add("nothing is wrong", "", set(0))
	add("G10: sent by the gateway itself", "", set(src, mac(netns.TunnelMAC(lab.GatewayInternal[0]))...))
	add("to the broadcast address", "", set(dst, 255, 255, 255, 255, 255, 255))
	add("to a group", "", set(dst, 1, 0, 0x5e, 0, 0, 1))
	add("to another host", "the link has two ends and the sender is authenticated: strait ignores the destination MAC address",
		set(dst, 2, 0, 0, 0, 0, 5))
	add("from a zero MAC address", "", set(src, 0, 0, 0, 0, 0, 0))
	add("from another host", "", set(src, 2, 0, 0, 0, 0, 5))
	add("from a group", "", set(src, 1, 0, 0x5e, 0, 0, 1))
	for _, ethertype := range []uint16{0, 46, 0x88cc, 0x8847, 0x8864, 0xffff} {
		add(fmt.Sprintf("EtherType %04x", ethertype), "", set(kind, byte(ethertype>>8), byte(ethertype)))
	}
	add("VLAN tag", "", func(frame []byte) []byte {
		return slices.Concat(frame[:kind], []byte{0x81, 0, 0, 5, 8, 0}, frame[end:])
	})
	add("VLAN 0, a priority tag", "the kernel removes priority tags; the overlay has none", func(frame []byte) []byte {
		return slices.Concat(frame[:kind], []byte{0x81, 0, 0xe0, 0, 8, 0}, frame[end:])
	})
	add("IPv4 with the EtherType of IPv6", "the kernel uses the EtherType, strait the version in the packet", set(kind, 0x86, 0xdd))
	for _, n := range []int{dst, dst + 1, dst + 13, end, end + 1, end + 19} {
		add(fmt.Sprintf("cut to %d bytes", n), "", cutTo(n))
	}
	return faults
}
