//go:build linux

package endpoint

import (
	"encoding/binary"
	"net/netip"
)

// A message is the header of each datagram, and the first data from a TCP server:
//
//	0               4       6       8                              24              32
//	+---------------+-------+-------+-------------------------------+---------------+
//	| kind          | port  | zero  | address                       | nonce         |
//	+---------------+-------+-------+-------------------------------+---------------+
//
// Port and address are the source of the request as the server saw it; they are zero in the
// request. A reply is as long as its request, so that spoofed requests cannot amplify
// traffic, and is not a request, so that servers never answer each other.
const headLen = 32

var request, answer = [4]byte{'s', 't', 'Q', '1'}, [4]byte{'s', 't', 'A', '1'}

// putRequest writes the header of a request to b, which must be long enough.
func putRequest(b []byte, nonce uint64) {
	clear(b[:headLen])
	copy(b, request[:])
	binary.BigEndian.PutUint64(b[24:], nonce)
}

// putReply turns a request into its reply, in place. It returns false for others.
func putReply(b []byte, from netip.AddrPort) bool {
	if len(b) < headLen || [4]byte(b) != request {
		return false
	}
	address := from.Addr().Unmap().As16()
	copy(b, answer[:])
	binary.BigEndian.PutUint16(b[4:], from.Port())
	copy(b[8:24], address[:])
	return true
}

func parseRequest(b []byte) (nonce uint64, ok bool) {
	if len(b) < headLen || [4]byte(b) != request {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[24:]), true
}

func parseReply(b []byte) (from netip.AddrPort, nonce uint64, ok bool) {
	if len(b) < headLen || [4]byte(b) != answer {
		return from, 0, false
	}
	address := netip.AddrFrom16([16]byte(b[8:24])).Unmap()
	return netip.AddrPortFrom(address, binary.BigEndian.Uint16(b[4:])), binary.BigEndian.Uint64(b[24:]), true
}
