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

// mapping is an external address and the target that it stands for, as long as it does:
// with another target it is another mapping.
type mapping struct {
	config.Mapping
	ctx context.Context // ends when the mapping does, and with it all that uses it
	end context.CancelFunc

	running sync.WaitGroup // what uses it; grows only while the relay serves it

	answers atomic.Uint32 // a port on which the target answered TCP, 0 = none yet
	state   aliveness
}

// SetMappings serves exactly these. Connections and sessions of those that are gone or
// have another target end before it returns, those of TCP with a reset: so the stack must
// own their addresses until then. Others go on. A target that callers must not reach is
// left out, and named in the error: what is the gateway's own, and what only means this
// machine or this link.
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

// mayRelay says why a target is none. Whoever may write mappings is trusted with the
// network around the gateway, not with the gateway's own loopback, nor with what the
// machine's link serves to it alone (169.254.169.254 knows the machine's credentials).
func mayRelay(target netip.Addr, own map[netip.Addr]bool) error {
	switch {
	case !target.IsValid(), target.IsUnspecified(), target.IsLoopback(), target.IsMulticast(),
		target.IsLinkLocalUnicast(), target == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("target %v is not the address of one host that others can reach; name another one", target)
	case own[target], target.Is4In6():
		return fmt.Errorf("target %v is an address of the gateway itself, or IPv4 in IPv6; name another one", target)
	}
	return nil
}

// ownAddresses are those of this machine, or the gateway's pod. What cannot be asked
// is empty: mayRelay refuses the worst without it.
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

// Mappings are those that are served, in no order. The list is the caller's.
func (r *Relay) Mappings() []config.Mapping {
	serves := *r.mappings.Load()
	all := make([]config.Mapping, 0, len(serves))
	for _, m := range serves {
		all = append(all, m.Mapping)
	}
	return all
}

// mapped is the mapping that an address of the stack belongs to, or nil.
func (r *Relay) mapped(a tcpip.Address) *mapping { return (*r.mappings.Load())[address(a)] }

// address is an address of the stack.
func address(a tcpip.Address) netip.Addr {
	b, _ := netip.AddrFromSlice(a.AsSlice())
	return b
}

// stackAddress is an address as the stack has it.
func stackAddress(a netip.Addr) tcpip.Address { return tcpip.AddrFromSlice(a.AsSlice()) }
