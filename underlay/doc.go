// Package underlay moves UDP datagrams between this process and the network in
// batches, with what an unprivileged Linux process may use: recvmmsg, sendmmsg,
// UDP_GRO and UDP_SEGMENT.
//
// A datagram travels through the files in this order:
//
//	in:  Poller parks until something waits ► Receiver fills 64 messages with one
//	     system call and cuts each at its UDP_GRO segment size
//	out: Batch collects datagrams, joins equal-sized ones to one destination into
//	     UDP_SEGMENT messages where they lie, and sends each socket's messages with
//	     one system call
//
// Mux is the WireGuard side of the same parts: a conn.Bind per link, all links on
// one UDP port.
//
// What the kernel offers is probed for each socket at Listen, and can be refused by
// Options. Nothing on the packet path allocates, logs, or takes a lock that the
// other direction takes too.
//
// Addresses are plain: an IPv6 zone is not carried, so link-local addresses cannot
// be destinations.
package underlay
