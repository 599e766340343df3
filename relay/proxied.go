package relay

import (
	"net/netip"

	"github.com/gaissmai/bart"
	"gvisor.dev/gvisor/pkg/tcpip"

	"strait.dev/strait/config"
)

// maxPods limits the proxied addresses whose state the relay remembers. Connections do not need it.
const maxPods = 1024

// proxied are the proxied prefixes. Immutable.
type proxied struct {
	config.Proxy
	scopes bart.Table[*scope]
	except bart.Lite
	own    map[netip.Addr]bool // addresses of the gateway
}

// SetProxy replaces the proxied prefixes. Connections to prefixes that are not proxied any more end before it returns, TCP
// with a reset. An exception ends no connection.
func (r *Relay) SetProxy(c config.Proxy) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	// The stack has none of these addresses: it must accept them all. What it gets is up to its owner.
	for _, set := range []func(tcpip.NICID, bool) tcpip.Error{r.stack.SetPromiscuousMode, r.stack.SetSpoofing} {
		if err := set(r.nic, len(c.Prefixes) > 0); err != nil && len(c.Prefixes) > 0 {
			return stackError{"accept proxied addresses", err}
		}
	}
	old, next := r.proxied.Load(), &proxied{Proxy: c, own: ownAddresses()}
	for _, p := range c.Prefixes {
		s, ok := old.scopes.Get(p)
		if !ok {
			s = newScope()
		}
		next.scopes.Insert(p, s)
	}
	for _, p := range c.Except {
		next.except.Insert(p)
	}
	r.mu.Lock()
	if r.closed {
		next = new(proxied)
	}
	r.proxied.Store(next)
	var ended []*scope
	for p, s := range old.scopes.All() {
		if _, stays := next.scopes.Get(p); !stays {
			s.withdrawn = true
			ended = append(ended, s)
		}
	}
	clear(r.pods)
	r.mu.Unlock()
	withdraw(ended)
	return nil
}

// pod returns the mapping of a proxied address, nil if it is none. Its target is the address itself.
func (r *Relay) pod(a netip.Addr) *mapping {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.proxied.Load() // not before: SetProxy forgets the pods of prefixes that it withdraws
	s, ok := p.scopes.Lookup(a)
	if !ok || p.except.Lookup(a) || mayRelay(a, p.own) != nil {
		return nil
	}
	m := r.pods[a]
	if m == nil {
		m = &mapping{Mapping: config.Mapping{External: a, Target: a}, scope: s, part: &r.ofProxy}
		if len(r.pods) == maxPods {
			for other := range r.pods {
				delete(r.pods, other)
				break
			}
		}
		r.pods[a] = m
	}
	return m
}
