// Package traffic sends UDP datagrams over a path and measures what arrives:
//
//	Path.Trial:  sender at a rate ──► path ──► Counter                           how many
//	Path.Probe:  requests at a rate ──► path ──► Echo ──► path ──► Responses     how late
//
// A path is anything between two sockets: loopback, a relay, two gateways. It may change
// headers; the Mark at the end of a datagram must stay intact.
package traffic
