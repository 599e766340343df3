// Package nodeprobe reads and writes the message with which a node asks a gateway
// whether it forwards, and the gateway's answer. Both are UDP datagrams on the overlay:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                        magic "STRN"                           |
//	+---------------+---------------+---------------+---------------+
//	|  version = 1  |     kind      |     state     | reserved = 0  |
//	+---------------+---------------+---------------+---------------+
//	|                      sequence (8 bytes)                       |
//	+---------------------------------------------------------------+
//	|                  interval, in milliseconds                    |
//	+---------------------------------------------------------------+
//
// Kind 1 is a request, kind 2 an answer with the sequence of the request. State and
// interval are 0 in a request. Later versions may append fields and add states: receivers
// ignore bytes after the known fields, and take an unknown state for Unknown.
//
// The package works on the caller's memory, does not allocate and keeps no reference.
package nodeprobe
