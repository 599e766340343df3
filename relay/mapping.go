package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/tcpip"

	"strait.dev/strait/config"
)

// mapping is an external address with its target. A new target makes a new mapping.
type mapping struct {
	config.Mapping
	ctx context.Context // ends with the mapping, and ends everything that uses it
	end context.CancelFunc

	running sync.WaitGroup // users of the mapping; grows only while the mapping is served

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
			next[m.External] = newMapping(m)
		}
	}
	r.mu.Lock()
	if r.closed {
		clear(next)
	}
	r.mappings.Store(&next)
	r.mu.Unlock()
	for a, m := range old {
		if next[a] != m {
			m.end()
		}
	}
	for a, m := range old {
		if next[a] != m {
			m.running.Wait()
		}
	}
	return errors.Join(refused...)
}

func newMapping(c config.Mapping) *mapping {
	m := &mapping{Mapping: c}
	m.ctx, m.end = context.WithCancel(context.Background())
	return m
}

// mayRelay returns an error for a target that must not be reached. The author of mappings is trusted with the network
// around the gateway, but not with the gateway's own loopback, nor with services that the machine's link offers to it alone
// (169.254.169.254 returns the machine's credentials).
func mayRelay(target netip.Addr, own map[netip.Addr]bool) error {
	switch {
	case !target.IsValid(), target.IsUnspecified(), target.IsLoopback(), target.IsMulticast(),
		target.IsLinkLocalUnicast(), target == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("target %v is not a routable unicast address; choose another target", target)
	case own[target], target.Is4In6():
		return fmt.Errorf("target %v is an address of the gateway itself, or an IPv4-mapped IPv6 address; choose another target", target)
	}
	return nil
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

// mapped returns the mapping of an address of the stack, or nil.
func (r *Relay) mapped(a tcpip.Address) *mapping { return (*r.mappings.Load())[address(a)] }

// address converts an address of the stack.
func address(a tcpip.Address) netip.Addr {
	b, _ := netip.AddrFromSlice(a.AsSlice())
	return b
}

// stackAddress converts an address to that of the stack.
func stackAddress(a netip.Addr) tcpip.Address { return tcpip.AddrFromSlice(a.AsSlice()) }
