package endpoint

import (
	"encoding/binary"
	"net/netip"
)

// A message is the head of each datagram, and what a TCP server says first:
//
//	0               4       6       8                              24              32
//	+---------------+-------+-------+-------------------------------+---------------+
//	| kind          | port  | zero  | address                       | nonce         |
//	+---------------+-------+-------+-------------------------------+---------------+
//
// Port and address are those that the server saw a request come from; nobody's in the
// request. An answer has the length of its request, so that nobody is flooded by asking in
// another's name, and is no request, so that servers never answer each other.
const headLen = 32

var request, answer = [4]byte{'s', 't', 'Q', '1'}, [4]byte{'s', 't', 'A', '1'}

// putRequest writes the head of a request. B has room for it.
func putRequest(b []byte, nonce uint64) {
	clear(b[:headLen])
	copy(b, request[:])
	binary.BigEndian.PutUint64(b[24:], nonce)
}

// putAnswer makes a request its answer, in place. It reports false, and changes nothing,
// where b is no request.
func putAnswer(b []byte, from netip.AddrPort) bool {
	if len(b) < headLen || [4]byte(b) != request {
		return false
	}
	address := from.Addr().Unmap().As16()
	copy(b, answer[:])
	binary.BigEndian.PutUint16(b[4:], from.Port())
	copy(b[8:24], address[:])
	return true
}

// parseAnswer reads the head of an answer.
func parseAnswer(b []byte) (from netip.AddrPort, nonce uint64, ok bool) {
	if len(b) < headLen || [4]byte(b) != answer {
		return from, 0, false
	}
	address := netip.AddrFrom16([16]byte(b[8:24])).Unmap()
	return netip.AddrPortFrom(address, binary.BigEndian.Uint16(b[4:])), binary.BigEndian.Uint64(b[24:]), true
}
