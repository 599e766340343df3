package model

import "strait.dev/strait/bench/measure"

// load is packets of certain sizes, as in the ladder's tests.
type load struct {
	name  string // in the names of tests, "size=64"
	sizes []int  // bytes of IP packet
}

// The packet sizes of the ladder's single-packet tests, in bytes.
const (
	smallest = 64
	largest  = 1400
)

var loads = []load{
	{"64", []int{smallest}},
	{"imix", measure.IMIX},
	{"1400", []int{largest}},
}

// The modes of the ladder: offloads of the nodes' sockets.
const (
	nogro = "nogro"
	wire  = "wire"
)

var modes = []string{nogro, wire}

// mean returns the mean of a function of the size.
func (l load) mean(of func(size int) float64) (m float64) {
	for _, size := range l.sizes {
		m += of(size) / float64(len(l.sizes))
	}
	return m
}

// bytes returns the mean packet size.
func (l load) bytes() float64 { return l.mean(func(size int) float64 { return float64(size) }) }

// The bytes on an Ethernet line in addition to those of the packet, as WireGuard sends it
// over IPv4: header and tag (32), UDP (8), IPv4 (20), Ethernet's header, checksum, preamble
// and gap (14 + 4 + 8 + 12). It is padded to 16 bytes. Frames from nodes are at least 10
// bytes shorter.
const (
	lineOverhead = 32 + 8 + 20 + 14 + 4 + 8 + 12
	paddedTo     = 16
)

// lineBits returns the bits on an Ethernet line per packet.
func (l load) lineBits() float64 {
	return 8 * l.mean(func(size int) float64 {
		return float64((size+paddedTo-1)/paddedTo*paddedTo + lineOverhead)
	})
}
