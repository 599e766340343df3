//go:build lab || nightly

package kernelnat

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"strait.dev/strait/test/lab"
)

func addrString(b []byte) string {
	a, _ := netip.AddrFromSlice(b)
	return a.String()
}

// difference is a field in which two packets differ, or another difference of two outcomes.
type difference struct{ what, values string }

func (d difference) String() string { return d.what + d.values }

const (
	kernelDrops = "the kernel drops it, strait does not"
	weDrop      = "strait drops it, the kernel does not"
	pieces      = "number of packets"
	kernelTells = "the kernel sends an ICMP error, strait does not"
	weTell      = "strait sends an ICMP error, the kernel does not"
)

// outcomesDiffer returns the differences between the two gateways.
func outcomesDiffer(kernels, ours outcome) (different []difference) {
	switch {
	case kernels.dropped() && !ours.dropped():
		return []difference{{what: kernelDrops}}
	case !kernels.dropped() && ours.dropped():
		return []difference{{weDrop, ": " + ours.reason}}
	case len(kernels.out) != len(ours.out):
		return []difference{{pieces, fmt.Sprintf(" %d and %d", len(kernels.out), len(ours.out))}}
	}
	for i := range ours.out {
		different = append(different, packetsDiffer(kernels.out[i], ours.out[i])...)
	}
	for i := range ours.headers {
		if !bytes.Equal(kernels.headers[i], ours.headers[i]) {
			different = append(different, difference{"tunnel and Ethernet header", fmt.Sprintf(" %x and %x", kernels.headers[i], ours.headers[i])})
		}
	}
	if kernels.ecn != ours.ecn {
		different = append(different, difference{"outer ECN", fmt.Sprintf(" %d and %d", kernels.ecn, ours.ecn)})
	}
	return append(different, answersDiffer(kernels.answer, ours.answer)...)
}

// field is a part of a packet with a name.
type field struct {
	name     string
	from, to int
	checksum bool // 0 and 0xffff are the same number in one's complement (RFC 1071)
}

// fieldsOf returns the named fields of an IP packet.
func fieldsOf(b []byte) (fields []field) {
	add := func(name string, from, to int) {
		fields = append(fields, field{name: name, from: from, to: min(to, len(b))})
	}
	sum := func(name string, at int) { add(name, at, at+2); fields[len(fields)-1].checksum = true }
	var at int
	proto, later := byte(0), false
	if b[0]>>4 == 4 {
		at, proto = int(b[0]&15)*4, b[9]
		add("version and header length", 0, 1)
		add("TOS", 1, 2)
		add("total length", 2, 4)
		add("ID", 4, 6)
		add("flags and fragment offset", 6, 8)
		add("TTL", 8, 9)
		add("protocol", 9, 10)
		sum("header checksum", 10)
		add("source", 12, 16)
		add("destination", 16, 20)
		add("options", 20, at)
		later = binary.BigEndian.Uint16(b[6:])&0x1fff != 0
	} else {
		add("version and traffic class", 0, 2)
		add("flow label", 2, 4)
		add("payload length", 4, 6)
		add("next header", 6, 7)
		add("hop limit", 7, 8)
		add("source", 8, 24)
		add("destination", 24, 40)
		at, proto, later = upper6(b)
		add("extension headers", 40, at)
	}
	end, sumAt := at, -1
	switch {
	case later:
	case proto == lab.ProtoTCP:
		sumAt = 16
	case proto == lab.ProtoUDP:
		sumAt = 6
	case proto == lab.ProtoICMP, proto == lab.ProtoICMPv6:
		sumAt = 2
	}
	if sumAt >= 0 && len(b) >= at+sumAt+2 {
		add("upper header before its checksum", at, at+sumAt)
		sum("upper checksum", at+sumAt)
		fields[len(fields)-1].checksum = proto != lab.ProtoUDP // a checksum of 0 means none (RFC 768)
		end = at + sumAt + 2
	}
	add("payload", end, len(b))
	return fields
}

// upper6 finds the upper-layer header after the extension headers.
func upper6(b []byte) (at int, proto byte, later bool) {
	at, proto = 40, b[6]
	for len(b) >= at+8 {
		size := 0
		switch proto {
		case 0, 43, 60:
			size = 8 + int(b[at+1])*8
		case 51:
			size = 8 + int(b[at+1])*4
		case 44:
			size, later = 8, later || binary.BigEndian.Uint16(b[at+2:])>>3 != 0
		default:
			return at, proto, later
		}
		proto = b[at]
		at += size
		if later {
			return min(at, len(b)), proto, later
		}
	}
	return min(at, len(b)), proto, later
}

func packetsDiffer(kernels, ours []byte) (different []difference) {
	if len(kernels) != len(ours) {
		return []difference{{"bytes", fmt.Sprintf(" %d and %d", len(kernels), len(ours))}}
	}
	for _, f := range fieldsOf(ours) {
		a, b := kernels[f.from:f.to], ours[f.from:f.to]
		if bytes.Equal(a, b) || f.checksum && isZeroSum(a) && isZeroSum(b) {
			continue
		}
		different = append(different, difference{f.name, fmt.Sprintf(" %x and %x", head(a), head(b))})
	}
	return different
}

func isZeroSum(b []byte) bool { return b[0] == b[1] && (b[0] == 0 || b[0] == 0xff) }

// answersDiffer compares ICMP errors: source, destination, type, and that both are valid.
// The other fields of the outer header may differ (ID, TTL), and so may the length of the
// quote beyond the minimum of RFC 1812.
func answersDiffer(kernels, ours []byte) (different []difference) {
	switch {
	case len(kernels) == 0 && len(ours) == 0:
		return nil
	case len(ours) == 0:
		return []difference{{what: kernelTells}}
	case len(kernels) == 0:
		return []difference{{what: weTell}}
	}
	a, aOK := lab.ICMPErrorOf(append(make([]byte, 14), kernels...))
	b, bOK := lab.ICMPErrorOf(append(make([]byte, 14), ours...))
	if !aOK || !bOK || len(a.Payload) < 8 {
		return []difference{{what: "an answer that is not an ICMP error"}}
	}
	check := func(name string, x, y any) {
		if x != y {
			different = append(different, difference{"ICMP error's " + name, fmt.Sprintf(" %v and %v", x, y)})
		}
	}
	check("source", a.Src, b.Src)
	check("destination", a.Dst, b.Dst)
	check("TTL", a.Hop, b.Hop)
	check("type", a.Kind, b.Kind)
	check("code", a.Code, b.Code)
	if a.Kind != 11 { // RFC 4884 puts the length of the quote into an otherwise unused field
		check("MTU", a.MTU, b.MTU)
	}
	check("quoted length", len(a.Payload)-8, len(b.Payload)-8)
	n := min(len(a.Payload), len(b.Payload))
	if !bytes.Equal(a.Payload[8:n], b.Payload[8:n]) {
		different = append(different, difference{"ICMP error's quote", fmt.Sprintf(" %x and %x", head(a.Payload[8:n]), head(b.Payload[8:n]))})
	}
	for _, e := range []lab.ICMPError{a, b} {
		start := uint32(0)
		if e.Proto == lab.ProtoICMPv6 {
			start = uint32(e.PseudoSum(len(e.Payload)))
		}
		check("checksum", lab.OnesSum(start, e.Payload), uint16(0xffff))
	}
	return different
}

func head(b []byte) []byte { return b[:min(len(b), 64)] }

func (o *outcome) describe() string {
	text := ""
	if o.dropped() {
		text = "dropped " + o.reason + "\n"
	}
	for _, b := range o.out {
		text += "sends\n" + describe(b)
	}
	if len(o.answer) > 0 {
		text += "answers\n" + describe(o.answer)
	}
	return text
}

// describe decodes a packet for messages.
func describe(b []byte) string {
	if len(b) < 20 || b[0]>>4 == 6 && len(b) < 40 || b[0]>>4 == 4 && int(b[0]&15)*4 > len(b) {
		return hex.Dump(b)
	}
	var text strings.Builder
	for _, f := range fieldsOf(b) {
		if f.name == "source" || f.name == "destination" {
			fmt.Fprintf(&text, "    %s %s\n", f.name, addrString(b[f.from:f.to]))
		} else if f.from < f.to {
			fmt.Fprintf(&text, "    %s %x\n", f.name, head(b[f.from:f.to]))
		}
	}
	return text.String()
}
