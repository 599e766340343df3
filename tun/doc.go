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
// device with one peer) per remote replica, or more while keys are replaced. Each remote replica has
// a lane: a socket on every address of the overlay, which one of its links reads. The kernel selects
// the lane by flow. A packet from a node is processed by one goroutine.
package tun
