// Package leak captures packets on a node while packets with a marker cross a tunnel, and
// reports those that should be encrypted but are not.
//
// Inside a cluster packets are in the clear, on the overlay too: Geneve does not encrypt.
// So the addresses decide: a packet with the marker must never have an address of the other
// cluster, and on the interfaces of the underlay only addresses of this one.
//
// Order and Report are plain data on every platform. The capture needs Linux.
package leak
