package tun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"strait.dev/strait/internal/ratelimit"
)

// The remote cluster announces the names of its endpoints, so that it decides how many names
// are looked up, and how often.
const (
	lookupFresh   = 5 * time.Second // for which an answer is used
	lookupRetry   = time.Second     // after the first failure; doubled after each further one
	lookupLongest = 15 * time.Second
	lookupTimeout = 5 * time.Second
	// lookupInterval is the interval of all lookups, after lookupBurst of them.
	lookupInterval = 200 * time.Millisecond
	lookupBurst    = 20
	// lookupKept is for how long an answer is kept that no link asks for.
	lookupKept = time.Minute
)

// errLookups is the error of a name that is not looked up because of others.
var errLookups = errors.New("too many names are looked up; trying again")

// resolver resolves endpoints. Links that ask for the same name share the answer. It is safe
// for concurrent use.
type resolver struct {
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	mu     sync.Mutex
	budget ratelimit.Bucket
	names  map[string]*resolved
}

// resolved is the last answer for a name.
type resolved struct {
	turn      chan struct{} // capacity one: full while a link looks the name up, or reads the fields below
	addresses []netip.Addr
	err       error
	failures  int       // consecutive
	next      time.Time // when to look it up again; zero: it never was
	asked     time.Time // protected by resolver.mu
}

func newResolver() *resolver {
	return &resolver{names: make(map[string]*resolved), lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
}

// resolve resolves an endpoint "host:port", whose host is a name or an address. The addresses are
// in the resolver's order of preference.
func (r *resolver) resolve(ctx context.Context, endpoint string, now time.Time) ([]netip.AddrPort, error) {
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
	addresses, err := r.name(ctx, host, now)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	found := make([]netip.AddrPort, len(addresses))
	for i, a := range addresses {
		found[i] = netip.AddrPortFrom(a, uint16(port))
	}
	return found, nil
}

// name returns the addresses of a name.
func (r *resolver) name(ctx context.Context, host string, now time.Time) ([]netip.Addr, error) {
	of := r.entry(host, now)
	select {
	case of.turn <- struct{}{}:
		defer func() { <-of.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if now.Before(of.next) {
		return of.addresses, of.err
	}
	if !r.permits(now) {
		if of.next.IsZero() {
			return nil, errLookups
		}
		return of.addresses, of.err
	}
	within, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := r.lookup(within, host)
	if ctx.Err() != nil {
		return nil, err // the link was removed: others look the name up
	}
	of.addresses, of.err = nil, err
	for _, a := range found {
		if a = a.Unmap(); isHost(a) {
			of.addresses = append(of.addresses, a)
		}
	}
	if of.err == nil && len(of.addresses) == 0 {
		of.err = errors.New("the name has no address of another host: only loopback, link-local, multicast or reserved addresses")
	}
	if of.err == nil {
		of.failures, of.next = 0, now.Add(lookupFresh)
	} else {
		of.next = now.Add(min(lookupRetry<<min(of.failures, 10), lookupLongest))
		of.failures++
	}
	return of.addresses, of.err
}

// entry returns the entry of a name, and removes those that no link asks for.
func (r *resolver) entry(host string, now time.Time) *resolved {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.names[host]
	if of == nil {
		maps.DeleteFunc(r.names, func(_ string, other *resolved) bool { return now.Sub(other.asked) > lookupKept })
		of = &resolved{turn: make(chan struct{}, 1)}
		r.names[host] = of
	}
	of.asked = now
	return of
}

func (r *resolver) permits(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.budget.Take(now, lookupInterval, lookupBurst)
}

// isHost reports whether an address may be that of another host.
func isHost(a netip.Addr) bool {
	return !a.IsLoopback() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLinkLocalUnicast() && (!a.Is4() || a.As4()[0] != 0 && a.As4()[0] < 240)
}
