//go:build lab || nightly

package kernelnat

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"strait.dev/strait/test/lab"
)

// exception is an intended difference.
type exception struct {
	trait trait    // of the packets concerned
	only  []string // the fields that may differ
	why   string
	check func(s sample, kernels, ours outcome) bool // nil: no further check
}

var exceptions = []exception{
	{recordsRoute, []string{"options", "header checksum", "ICMP error's quote", "ICMP error's quoted length"},
		"the kernel fills in record route and timestamp options; strait does not modify options (RFC 7126 allows both)", nil},
	{hasOptions, []string{"bytes", "options", "header checksum"},
		"the kernel pads the space of options that later fragments do not have; strait removes it", sameDatagram},
	{oddMSS, []string{"upper checksum"},
		"the kernel updates the checksum as if every MSS option were at an even offset; strait computes it correctly", rightChecksum},
	{manyMSS, []string{"upper checksum", "payload"},
		"the kernel lowers only the first MSS option; strait lowers all, because receivers differ in which one they use", rightChecksum},
	{firstSYN, []string{"upper checksum", "payload"},
		"the kernel lowers the MSS in the first fragment of a SYN; strait does not modify fragments: their checksum cannot be verified", nil},
	{cutShort, []string{weDrop},
		"the kernel forwards a packet whose checksum is truncated; strait drops it", dropsAs("upper_header")},
	{type0, []string{weDrop, kernelTells},
		"the kernel as a router ignores type 0 routing headers; strait drops them (RFC 5095)", dropsAs("ip_source_route")},
	{authenticated, []string{"upper checksum", "payload"},
		"nftables updates no checksum after an authentication header, which fails after translation anyway; strait does", rightChecksum},
	{laterFragment6, []string{kernelTells},
		"the kernel sends ICMPv6 errors about later fragments; strait applies the rule of IPv4 (RFC 1812 section 4.3.2.7)", nil},
	{routers, []string{"source", "header checksum", "upper checksum"},
		"the kernel sets the source of routers' errors to the quoted packet's destination; strait keeps the router's address", fromTheRouter},
	{copied, []string{kernelTells},
		"the kernel answers TTL 0; strait reads SYNs with it, which are copies for all gateways", dropsAs("")},
	{congested, []string{"outer ECN"},
		"the kernel sets the outer header of a CE packet to ECT(0), as RFC 3168; strait copies CE, as RFC 6040 section 4.1", nil},
}

// excepted returns the reasons for all differences of a packet; ok is false if one has
// none.
func excepted(s sample, differences []difference, kernels, ours outcome) (whys []string, ok bool) {
	covered := map[string]bool{}
	for _, e := range exceptions {
		meets := func(d difference) bool { return slices.Contains(e.only, d.what) }
		if s.trait&e.trait == 0 || !slices.ContainsFunc(differences, meets) || e.check != nil && !e.check(s, kernels, ours) {
			continue
		}
		whys = append(whys, e.why)
		for _, what := range e.only {
			covered[what] = true
		}
	}
	return whys, !slices.ContainsFunc(differences, func(d difference) bool { return !covered[d.what] })
}

// fromTheRouter: the error's source is the router's address as mapped for the receiver,
// with its host bits.
func fromTheRouter(s sample, _, ours outcome) bool {
	sent, _ := lab.ParseIP(s.ip)
	seen, _ := lab.ParseIP(ours.out[0])
	for _, r := range lab.SeenAs("10.71.0.0/16", "fd00:71::/48", "10.73.0.0/16", "fd00:73::/48") {
		if r.CIDR.Contains(sent.Src) && seen.Src == lab.ReplacePrefix(sent.Src, r.SeenAs) {
			return true
		}
	}
	return seen.Src == sent.Src // of a local node, which keeps its address
}

func dropsAs(reason string) func(sample, outcome, outcome) bool {
	return func(_ sample, _, ours outcome) bool { return ours.reason == reason }
}

// sameDatagram: both fragment the same packet, each fragment fits, and the reassembled
// packets are equal.
func sameDatagram(s sample, kernels, ours outcome) bool {
	return len(ours.out) > 1 && bytes.Equal(payloads(kernels.out), payloads(ours.out))
}

// payloads joins the payloads of IPv4 fragments; nil if they are not contiguous, or too
// long.
func payloads(fragments [][]byte) (joined []byte) {
	start := -1
	for i, b := range fragments {
		word := binary.BigEndian.Uint16(b[6:])
		offset := int(word&0x1fff) * 8
		if start < 0 {
			start = offset
		}
		last := i == len(fragments)-1
		if offset != start+len(joined) || !last && word&0x2000 == 0 || len(b) > natOverlayMTU {
			return nil
		}
		joined = append(joined, b[int(b[0]&15)*4:]...)
	}
	return joined
}

// rightChecksum: the pipeline's checksum covers the whole packet, if the original did.
func rightChecksum(s sample, _, ours outcome) bool {
	if len(ours.out) != 1 || strings.Contains(s.kind, "fragment") {
		return true // cannot be checked for a part
	}
	return sumOf(s.ip) != 0xffff || sumOf(ours.out[0]) == 0xffff
}

// sumOf returns the checksum of a packet's upper layer with its pseudo-header; 0xffff is
// valid.
func sumOf(b []byte) uint16 {
	p, _ := lab.ParseIP(b)
	if b[0]>>4 == 6 {
		at, proto, _ := upper6(b)
		p.Proto, p.Payload = proto, b[at:]
	}
	return lab.OnesSum(uint32(p.PseudoSum(len(p.Payload))), p.Payload)
}
