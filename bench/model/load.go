package model

import "strait.dev/strait/bench/measure"

// load is packets of some sizes, as the ladder's tests name them.
type load struct {
	name  string // in the names of tests, "size=64"
	sizes []int  // bytes of IP packet
}

// The sizes that the ladder measures single packets with, bytes.
const (
	smallest = 64
	largest  = 1400
)

var loads = []load{
	{"64", []int{smallest}},
	{"imix", measure.IMIX},
	{"1400", []int{largest}},
}

// The modes of the ladder: what nodes' sockets do.
const (
	nogro = "nogro"
	wire  = "wire"
)

var modes = []string{nogro, wire}

// mean is the mean of something about the sizes.
func (l load) mean(of func(size int) float64) (m float64) {
	for _, size := range l.sizes {
		m += of(size) / float64(len(l.sizes))
	}
	return m
}

// bytes is the mean size of a packet.
func (l load) bytes() float64 { return l.mean(func(size int) float64 { return float64(size) }) }

// What a packet takes of an Ethernet line besides its own bytes, as WireGuard sends
// it over IPv4: header and tag (32), UDP (8), IPv4 (20), Ethernet's header, checksum,
// preamble and gap (14 + 4 + 8 + 12). It is padded to 16 bytes. Frames from nodes are
// 10 bytes shorter at least.
const (
	lineOverhead = 32 + 8 + 20 + 14 + 4 + 8 + 12
	paddedTo     = 16
)

// lineBits are the bits of Ethernet that a packet takes.
func (l load) lineBits() float64 {
	return 8 * l.mean(func(size int) float64 {
		return float64((size+paddedTo-1)/paddedTo*paddedTo + lineOverhead)
	})
}
