package daemon

import (
	"fmt"
	"net"
	"net/netip"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/node/route"
	"strait.dev/strait/packet"
)

// Overhead of each leg in bytes.
const (
	udpIPv4 = packet.IPv4HeaderLen + packet.UDPHeaderLen
	udpIPv6 = packet.IPv6HeaderLen + packet.UDPHeaderLen

	wireguardData = 32 // header 16 and authenticator 16, WireGuard paper section 5.4.6

	// defaultInterfaceMTU is used if the MTU of an interface cannot be determined.
	defaultInterfaceMTU = 1500
	// maxInnerMTU is the largest inner packet that fits a UDP datagram with any of these headers.
	maxInnerMTU = packet.MaxLen - udpIPv6 - wireguardData - packet.IPv4HeaderLen
)

// deriveMTU returns the inner MTUs of a configuration: overlay.mtu if set, else the MTUs of the gateway's own routes and interfaces minus
// the overhead of each leg. announced is the MTU that the remote announced or that the path carries; 0 = not known yet.
func deriveMTU(c *config.Gateway, announced int) (gateway.MTUs, error) {
	m := gateway.MTUs{Overlay: c.Overlay.MTU, Tunnel: c.Overlay.MTU}
	if c.Overlay.MTU == 0 {
		var err error
		if m.Overlay, err = overlayMTU(c); err != nil {
			return m, err
		}
		if m.Tunnel, err = tunnelMTU(c); err != nil {
			return m, err
		}
		m.Tunnel = min(m.Tunnel, m.Overlay)
	}
	if m.Local = m.Tunnel; announced != 0 {
		m.Tunnel = min(m.Tunnel, announced)
	}
	if m.Tunnel < packet.MinIPv4MTU {
		return m, fmt.Errorf("the inner MTU would be %d; raise the interface's MTU, or set overlay.mtu", m.Tunnel)
	}
	return m, nil
}

// overlayMTU returns the inner MTU of the leg to the nodes. The route to the first one is that to all of them.
func overlayMTU(c *config.Gateway) (int, error) {
	local := c.Overlay.Listen.Addr
	if !local.IsValid() {
		local = c.Overlay.VXLANListen.Addr
	}
	var first netip.Addr
	overhead := udpIPv4
	for _, n := range c.Overlay.Nodes {
		if n.Underlay.Is6() {
			overhead = udpIPv6
		}
		if !first.IsValid() {
			first = n.Underlay
		}
		if !local.IsValid() || local.IsUnspecified() {
			local = sourceTowards(n.Underlay)
		}
	}
	mtu, err := mtuTowards(first, local)
	return min(mtu-overhead-gateway.EncapLen, maxInnerMTU), err
}

// outside are addresses of documentation (RFC 5737, RFC 3849), which are in no network: the route to them, and the source
// address, is that for unknown addresses outside of the cluster.
var outside = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}

// tunnelMTU returns the smallest inner MTU of the legs to the peers. A name may be IPv6.
func tunnelMTU(c *config.Gateway) (int, error) {
	smallest := maxInnerMTU
	for _, p := range c.WireGuard.Peers {
		endpoints := p.Endpoints()
		if len(endpoints) == 0 {
			endpoints = []string{""}
		}
		for _, e := range endpoints {
			overhead, local, to := udpIPv6, c.Overlay.Listen.Addr, outside
			if at, err := netip.ParseAddrPort(e); err == nil {
				local, to = sourceTowards(at.Addr()), []netip.Addr{at.Addr()}
				if at.Addr().Is4() {
					overhead = udpIPv4
				}
			}
			for _, address := range to {
				mtu, err := mtuTowards(address, local)
				if err != nil {
					return 0, err
				}
				smallest = min(smallest, mtu-overhead-wireguardData)
			}
		}
	}
	return smallest, nil
}

// sourceTowards returns the local address from which the kernel would send. Connecting a UDP socket sends no packet. The result
// is invalid if there is no route.
func sourceTowards(to netip.Addr) netip.Addr {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// mtuTowards returns the MTU of the route to an address, or of the interface with a local address if that is smaller or the
// route has none.
func mtuTowards(to, local netip.Addr) (int, error) {
	mtu, err := interfaceMTU(local)
	if !to.IsValid() {
		return mtu, err
	}
	if of := route.MTU(to); of != 0 {
		mtu = min(mtu, of)
	}
	return mtu, err
}

// interfaceMTU returns the MTU of the interface with an address, or else the smallest MTU of all interfaces that are up and not
// loopback.
func interfaceMTU(local netip.Addr) (int, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return 0, fmt.Errorf("list the interfaces to derive the MTU: %w; set overlay.mtu", err)
	}
	smallest := 0
	for _, i := range interfaces {
		if local.IsValid() && !local.IsUnspecified() {
			if hasAddress(i, local) {
				return i.MTU, nil
			}
			continue
		}
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 && i.MTU > 0 && (smallest == 0 || i.MTU < smallest) {
			smallest = i.MTU
		}
	}
	if smallest == 0 {
		return defaultInterfaceMTU, nil
	}
	return smallest, nil
}

func hasAddress(i net.Interface, a netip.Addr) bool {
	addresses, err := i.Addrs()
	if err != nil {
		return false
	}
	for _, x := range addresses {
		if p, err := netip.ParsePrefix(x.String()); err == nil && p.Addr().Unmap() == a.WithZone("") {
			return true
		}
	}
	return false
}

// machineAddresses returns the addresses of all interfaces; none if they cannot be read.
func machineAddresses() (all []netip.Addr) {
	found, _ := net.InterfaceAddrs()
	for _, one := range found {
		if n, ok := one.(*net.IPNet); ok {
			if a, ok := netip.AddrFromSlice(n.IP); ok {
				all = append(all, a.Unmap())
			}
		}
	}
	return all
}
