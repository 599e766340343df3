// Package vxlan reads and writes the VXLAN header (RFC 7348 section 5), which an
// Ethernet frame follows:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-----------------------------------------------+
//	|R|R|R|R|I|R|R|R|                   Reserved                    |
//	+-+-+-+-+-+-+-+-+-------------------------------+---------------+
//	|       VXLAN Network Identifier (VNI)          |   Reserved    |
//	+-----------------------------------------------+---------------+
//
// It works on the caller's memory, does not allocate and keeps no reference.
package vxlan
