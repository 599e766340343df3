package tun

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
)

// linkListener is the host's sockets at one of its own link addresses. There is one for each of
// the gateway's key pairs: links that share a key pair share a listener.
type linkListener struct {
	address   netip.Addr
	claims    *gonet.UDPConn
	listeners map[*listener]*gonet.TCPListener // protected by the fabric's mu
}

// openLinkListeners opens listeners at this end's addresses of these links. f.mu is held.
func (f *Fabric) openLinkListeners(keys []linkKey) error {
	wanted := slices.Collect(maps.Keys(f.linkListeners))
	for _, k := range keys {
		wanted = append(wanted, linkAddress(k.own))
	}
	if err := f.own(wanted); err != nil {
		return err
	}
	for _, a := range wanted {
		if f.linkListeners[a] != nil {
			continue
		}
		claims, err := f.host.listenUDP(netip.AddrPortFrom(a, claimPort))
		if err != nil {
			return fmt.Errorf("listen for claims on %v: %w", a, err)
		}
		e := &linkListener{address: a, claims: claims, listeners: make(map[*listener]*gonet.TCPListener)}
		f.linkListeners[a] = e
		f.done.Go(func() { f.receiveClaims(e) })
		for s := range f.listeners {
			if err := f.listenOn(e, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// closeLinkListeners closes the listeners without links. f.mu is held.
func (f *Fabric) closeLinkListeners() error {
	used := make(map[netip.Addr]bool)
	for _, l := range slices.Concat(*f.links.Load(), f.ending) {
		used[l.own] = true
	}
	for a, e := range f.linkListeners {
		if !used[a] {
			delete(f.linkListeners, a)
			e.claims.Close()
			for s := range e.listeners {
				e.stopListening(s)
			}
		}
	}
	return f.own(slices.Collect(maps.Keys(f.linkListeners)))
}

// own sets the addresses of the host: these link addresses, those of the gateway's table, and
// the mapped ones. f.mu is held.
func (f *Fabric) own(addresses []netip.Addr) error {
	addresses = append(addresses, f.Gateway.Table().Addresses()...)
	for _, m := range f.host.relay.Mappings() {
		addresses = append(addresses, m.External)
	}
	return f.host.setAddresses(addresses)
}
