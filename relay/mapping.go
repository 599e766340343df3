package relay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/tcpip"

	"strait.dev/strait/config"
)

// mapping is an address that the relay serves, with its target. A new target makes a new mapping. The target of a proxied
// address is that address.
type mapping struct {
	config.Mapping
	*scope
	part *part

	answers atomic.Uint32 // a port on which the target answered TCP, 0 = none yet
	state   aliveness
}

// SetMappings replaces the mappings. Connections and sessions of mappings that are removed or get another target end
// before it returns, TCP with a reset, so the stack must own their addresses until then. Others continue. Targets that
// clients must not reach are skipped and named in the error: addresses of the gateway itself, and addresses that are valid
// only on this machine or this link.
func (r *Relay) SetMappings(mappings []config.Mapping) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	var refused []error
	old, own := *r.mappings.Load(), ownAddresses()
	next := make(map[netip.Addr]*mapping, len(mappings))
	for _, m := range mappings {
		if err := mayRelay(m.Target, own); err != nil {
			refused = append(refused, fmt.Errorf("mapping of %v: %w", m.External, err))
		} else if was := old[m.External]; was != nil && was.Mapping == m {
			next[m.External] = was
		} else {
			next[m.External] = &mapping{Mapping: m, scope: newScope(), part: &r.ofMappings}
		}
	}
	r.mu.Lock()
	if r.closed {
		clear(next)
	}
	r.mappings.Store(&next)
	var ended []*scope
	for a, m := range old {
		if next[a] != m {
			m.withdrawn = true
			ended = append(ended, m.scope)
		}
	}
	r.mu.Unlock()
	withdraw(ended)
	return errors.Join(refused...)
}

// key is the address in quotas.
func (m *mapping) key() netip.AddrPort { return netip.AddrPortFrom(m.External, 0) }

// mayRelay returns an error for a target that must not be reached. The author of mappings is trusted with the network
// around the gateway, but not with the gateway's own loopback, nor with services that the machine's link offers to it alone
// (169.254.169.254 returns the machine's credentials, and in some clouds other addresses do).
func mayRelay(target netip.Addr, own map[netip.Addr]bool) error {
	switch {
	case !target.IsValid(), target.IsUnspecified(), target.IsLoopback(), target.IsMulticast(),
		target.IsLinkLocalUnicast(), slices.Contains(metadata, target), target == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("target %v is not a routable unicast address; choose another target", target)
	case own[target], target.Is4In6():
		return fmt.Errorf("target %v is an address of the gateway itself, or an IPv4-mapped IPv6 address; choose another target", target)
	}
	return nil
}

// metadata are the addresses of the metadata services of clouds that are not link-local: of EC2, Compute Engine, Azure and
// Alibaba Cloud.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("100.100.100.200"),
}

// ownAddresses returns the addresses of this machine, or of the gateway's pod. On an error it is empty; mayRelay then
// still refuses loopback and link-local targets.
func ownAddresses() map[netip.Addr]bool {
	own := make(map[netip.Addr]bool)
	all, err := net.InterfaceAddrs()
	if err != nil {
		return own
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own[p.Addr().Unmap()] = true
		}
	}
	return own
}

// Mappings returns the served mappings, in no order. The caller owns the list.
func (r *Relay) Mappings() []config.Mapping {
	serves := *r.mappings.Load()
	all := make([]config.Mapping, 0, len(serves))
	for _, m := range serves {
		all = append(all, m.Mapping)
	}
	return all
}

// served returns the mapping of an address of the stack, or of a proxied address, or nil.
func (r *Relay) served(a tcpip.Address) *mapping {
	at := address(a)
	if m := (*r.mappings.Load())[at]; m != nil {
		return m
	}
	return r.pod(at)
}

// address converts an address of the stack.
func address(a tcpip.Address) netip.Addr {
	b, _ := netip.AddrFromSlice(a.AsSlice())
	return b
}

// stackAddress converts an address to that of the stack.
func stackAddress(a netip.Addr) tcpip.Address { return tcpip.AddrFromSlice(a.AsSlice()) }
