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

	"strait.dev/strait/internal/plan"
)

// host is a pod, or the host side of a node: an in-memory network stack with one
// interface. Safe for concurrent use after attach.
type host struct {
	stack *stack.Stack
}

const hostNIC tcpip.NICID = 1

// tcpWindow is the largest TCP window of a host in bytes. The datagrams of a
// window must fit the receive buffer of the node's socket, which is 208 KiB by
// default (net.core.rmem_default) and is charged 2304 bytes per datagram: 92
// datagrams with 1380 bytes of TCP payload each.
const tcpWindow = 92 * 1380

// podMTU is the MTU of pods in bytes: larger than that of the tunnel, as in most clusters.
const podMTU = 1500

// newHost returns a host without an interface.
func newHost() (*host, error) {
	h := &host{stack.New(stack.Options{
		NetworkProtocols: []stack.NetworkProtocolFactory{
			ipv4.NewProtocol,
			// No router solicitations and no duplicate address detection: all
			// addresses are static.
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

// attach adds the host's interface. The first addresses are the source addresses.
func (h *host) attach(link stack.LinkEndpoint, own ...plan.Addresses) error {
	options := stack.NICOptions{DeliverLinkPackets: true} // icmpListener needs them
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

func (h *host) dialTCP(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	return gonet.DialContextTCP(ctx, h.stack, fullAddress(to), networkProtocol(to.Addr()))
}

func (h *host) listenTCP(at netip.AddrPort) (net.Listener, error) {
	return gonet.ListenTCP(h.stack, fullAddress(at), networkProtocol(at.Addr()))
}

func (h *host) dialUDP(to netip.AddrPort) (net.Conn, error) {
	remote := fullAddress(to)
	return gonet.DialUDP(h.stack, nil, &remote, networkProtocol(to.Addr()))
}

func (h *host) close() {
	h.stack.Close()
	h.stack.Wait()
}

func fullAddress(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{Addr: tcpip.AddrFromSlice(a.Addr().AsSlice()), Port: a.Port()}
}

// networkProtocols maps IP versions to protocol numbers.
var networkProtocols = [16]tcpip.NetworkProtocolNumber{4: header.IPv4ProtocolNumber, 6: header.IPv6ProtocolNumber}

func networkProtocol(a netip.Addr) tcpip.NetworkProtocolNumber {
	if a.Is4() {
		return header.IPv4ProtocolNumber
	}
	return header.IPv6ProtocolNumber
}
