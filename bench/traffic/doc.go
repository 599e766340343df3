// Package traffic puts UDP datagrams on a path and looks at what comes out of it:
//
//	Path.Trial:  Sender at a rate ──► path ──► Counter                     how many
//	Path.Probe:  requests at a rate ──► path ──► Echo ──► path ──► here   how late
//
// A path is anything between two sockets: loopback, a relay, two gateways. It may
// change headers; what a datagram ends with, its Mark, has to survive.
package traffic
