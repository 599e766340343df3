package tun

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// resolve resolves an endpoint "host:port", whose host is a name or an address. The addresses are
// in the resolver's order of preference.
func resolve(ctx context.Context, endpoint string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(endpoint)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w; write host:port", endpoint, err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: port %q is not a number from 1 to 65535", endpoint, service)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(a, uint16(port))}, nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	found := make([]netip.AddrPort, len(addresses))
	for i, a := range addresses {
		found[i] = netip.AddrPortFrom(a.Unmap(), uint16(port))
	}
	return found, nil
}
