package demo

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

// host is a pod, or a node as a host: a network stack of its own, in memory,
// with one interface. Safe for concurrent use once it is plugged in.
type host struct {
	stack *stack.Stack
}

const hostNIC tcpip.NICID = 1

// tcpWindow is how much a TCP connection of a host has on its way at most, bytes.
// The datagrams of a window have to fit the socket of the node behind it, which
// gets 208 KiB by default (net.core.rmem_default) and is charged 2304 bytes for
// each datagram: 92 of them, 1380 bytes of TCP payload each.
const tcpWindow = 92 * 1380

// newHost makes a host without an interface.
func newHost() (*host, error) {
	h := &host{stack.New(stack.Options{
		NetworkProtocols: []stack.NetworkProtocolFactory{
			ipv4.NewProtocol,
			// No router solicitations, no duplicate address detection: all
			// addresses are given.
			ipv6.NewProtocolWithOptions(ipv6.Options{}),
		},
		TransportProtocols: []stack.TransportProtocolFactory{icmp.NewProtocol4, icmp.NewProtocol6, udp.NewProtocol, tcp.NewProtocol},
	})}
	window := tcpip.TCPReceiveBufferSizeRangeOption{Min: tcpWindow, Default: tcpWindow, Max: tcpWindow}
	if err := h.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &window); err != nil {
		h.close()
		return nil, fmt.Errorf("network stack: set the TCP window: %v", err)
	}
	return h, nil
}

// attach gives the host its interface: everything goes through it. The first
// addresses are those it sends from.
func (h *host) attach(link stack.LinkEndpoint, own ...addresses) error {
	options := stack.NICOptions{DeliverLinkPackets: true} // for icmpListener
	if err := h.stack.CreateNICWithOptions(hostNIC, link, options); err != nil {
		return fmt.Errorf("network stack: create interface: %v", err)
	}
	for _, both := range own {
		for _, a := range both {
			protocol := tcpip.ProtocolAddress{Protocol: networkProtocol(a), AddressWithPrefix: tcpip.AddrFromSlice(a.AsSlice()).WithPrefix()}
			if err := h.stack.AddProtocolAddress(hostNIC, protocol, stack.AddressProperties{}); err != nil {
				return fmt.Errorf("network stack: add address %v: %v", a, err)
			}
		}
	}
	h.stack.SetRouteTable([]tcpip.Route{
		{Destination: header.IPv4EmptySubnet, NIC: hostNIC},
		{Destination: header.IPv6EmptySubnet, NIC: hostNIC},
	})
	return nil
}

// dialTCP opens a connection from this host.
func (h *host) dialTCP(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	return gonet.DialContextTCP(ctx, h.stack, fullAddress(to), networkProtocol(to.Addr()))
}

// listenTCP listens on an address of this host.
func (h *host) listenTCP(at netip.AddrPort) (net.Listener, error) {
	return gonet.ListenTCP(h.stack, fullAddress(at), networkProtocol(at.Addr()))
}

// dialUDP opens a socket of this host that talks to one address alone.
func (h *host) dialUDP(to netip.AddrPort) (net.Conn, error) {
	remote := fullAddress(to)
	return gonet.DialUDP(h.stack, nil, &remote, networkProtocol(to.Addr()))
}

// close ends the stack and waits for its goroutines.
func (h *host) close() {
	h.stack.Close()
	h.stack.Wait()
}

func fullAddress(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{Addr: tcpip.AddrFromSlice(a.Addr().AsSlice()), Port: a.Port()}
}

// networkProtocols by IP version.
var networkProtocols = [16]tcpip.NetworkProtocolNumber{4: header.IPv4ProtocolNumber, 6: header.IPv6ProtocolNumber}

func networkProtocol(a netip.Addr) tcpip.NetworkProtocolNumber {
	if a.Is4() {
		return header.IPv4ProtocolNumber
	}
	return header.IPv6ProtocolNumber
}
