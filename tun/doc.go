// Package tun connects WireGuard to the packet pipeline. There is no TUN device: a Device is the
// tun.Device that wireguard-go runs on, and its Read and Write are the two journeys of package
// gateway, on wireguard-go's own goroutines and buffers:
//
//	node ══► Overlay sockets ──► Device.Read  ── gateway.Egress  ──► WireGuard ══► other cluster
//	node ◄══ Overlay sockets ◄── Device.Write ── gateway.Ingress ◄── WireGuard ◄══ other cluster
//	              ▲                  │   ▲ packet queue: errors and what the host sends
//	              └──── gateway.Origin ── Host (netstack: ping, streams)
//
// A Fabric holds everything of one gateway: the overlay, the host, and one Link (a WireGuard
// device with one peer) per remote replica, or more while keys are replaced. One of them reads the overlay, and queues
// the packets that another one is to send.
//
// The files, in the order of the path:
//
//	from a node    overlay: sockets ► device, read: egress ► forward: over which link ► packetqueue: another link's
//	from a link    write: ingress ► outbox: to nodes
//	the host       host, hostlimits: netstack ► stream: TCP connections between the hosts of a link
//	a link         link ► wireguard: device and peer ► linkstate: what is known of it ► call, resolve: handshakes
//	               linkprobes, claim: what the ends tell each other
//	decisions      fabric: what follows from what ► director, choose, spread: which links carry the flows of nodes
//	               nodestate: what nodes are told ► mtu: what links teach about the MTU ► clock
//	to be seen     status, tap, panic
package tun
