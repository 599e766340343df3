package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/gaissmai/bart"

	"strait.dev/strait/config"
)

// forwardKey identifies a forward.
type forwardKey struct {
	protocol config.Protocol
	listen   config.ListenAddress
}

func (k forwardKey) String() string { return string(k.protocol) + " " + k.listen.String() }

// forward is a listening port of the machine whose connections go to targets that the stack reaches.
type forward struct {
	relay   *Relay
	key     forwardKey
	targets targets
	sockets interface{ Close() error } // what listens
	serving sync.WaitGroup

	datagrams *net.UDPConn // nil: TCP
	mu        sync.Mutex   // protects the field below
	flows     map[netip.AddrPort]*flow
}

// callers are the clients that may use forwards. Immutable.
type callers struct{ prefixes, except bart.Lite }

func (c *callers) has(a netip.Addr) bool { return c.prefixes.Lookup(a) && !c.except.Lookup(a) }

// SetForwards replaces the forwards, and the clients that may use them. TCP connections continue until they end, also those
// of forwards and to targets that are removed, or of such clients; UDP sessions with these end. The error names the forwards
// whose ports cannot be opened; the others are served, and the next call tries again.
func (r *Relay) SetForwards(forwards []config.Forward, from config.Callers) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	next := new(callers)
	for _, p := range from.Prefixes {
		next.prefixes.Insert(p)
	}
	for _, p := range from.Except {
		next.except.Insert(p)
	}
	r.callers.Store(next)
	wanted := make(map[forwardKey]config.Forward, len(forwards))
	for _, f := range forwards {
		wanted[forwardKey{f.Protocol, f.Listen}] = f
	}
	for key, f := range r.forwards { // first, because a new one may need the port
		if _, stays := wanted[key]; !stays {
			delete(r.forwards, key)
			f.close()
		}
	}
	var failed []error
	for key, c := range wanted {
		f := r.forwards[key]
		if f == nil {
			f = &forward{relay: r, key: key, flows: make(map[netip.AddrPort]*flow)}
			f.targets.choose = r.choose
			if err := f.open(); err != nil {
				failed = append(failed, fmt.Errorf("forward of %v: %w", key, err))
				continue
			}
			r.forwards[key] = f
		}
		f.targets.set(c.Targets)
		f.endStale()
	}
	return errors.Join(failed...)
}

// open opens the port and serves it.
func (f *forward) open() error {
	network, at := string(f.key.protocol), f.key.listen.String()
	if f.key.protocol == config.UDP {
		c, err := net.ListenPacket(network, at)
		if err != nil {
			return err
		}
		f.datagrams = c.(*net.UDPConn)
		f.sockets = c
		f.serving.Go(f.receive)
		return nil
	}
	l, err := (&net.ListenConfig{KeepAliveConfig: keepalive}).Listen(context.Background(), network, at)
	if err != nil {
		return err
	}
	f.sockets = l
	f.serving.Go(func() { f.accept(l) })
	return nil
}

// close closes the port, and ends its UDP sessions.
func (f *forward) close() {
	f.sockets.Close()
	f.targets.set(nil)
	f.endStale()
	f.serving.Wait()
}

// place is the forward in quotas.
func (f *forward) place() netip.AddrPort {
	return netip.AddrPortFrom(f.key.listen.Addr, f.key.listen.Port)
}
