//go:build linux

// Package underlay sends and receives UDP datagrams in batches, with the means of an unprivileged
// Linux process: recvmmsg, sendmmsg, UDP_GRO and UDP_SEGMENT.
//
// The path of a datagram through the files:
//
//	in:  Poller parks until a socket is readable ► Receiver fills 64 messages with one
//	     system call and splits each at its UDP_GRO segment size
//	out: Batch collects datagrams, joins equal-sized ones to one destination into
//	     UDP_SEGMENT messages without copying, and sends each socket's messages with
//	     one system call
//
// Turns is a Receiver for several sockets. The classes of a socket are more queues, among which the kernel selects by sender or
// kind while the socket is overloaded.
//
// Mux is the WireGuard side of the same parts: a conn.Bind per link, all links on one UDP port.
//
// Listen probes the kernel's features for each socket; Options can disable them. The packet path
// does not allocate, does not log, and takes no lock that the other direction takes.
//
// IPv6 zones are not supported, so link-local addresses cannot be destinations.
package underlay
