// Package link has the decisions about one link between two gateways, apart from I/O, and what its ends tell
// each other, as bytes. The decisions depend only on calls and the times passed to them. Package tun sends and receives for them, and package underlay
// for what concerns datagrams of WireGuard.
package link
