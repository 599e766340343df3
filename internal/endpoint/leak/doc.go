// Package leak looks at what passes on a node while packets with a marker cross a
// tunnel, and reports those that are not encrypted where they should be.
//
// Inside a cluster packets are in the clear, on the overlay too: that is how Geneve is.
// So what counts is where a packet goes to or comes from: one that carries the marker
// must never have an address of the other cluster, and on the interfaces of the underlay
// only addresses of this one.
package leak
