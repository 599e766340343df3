package tun

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"golang.zx2c4.com/wireguard/device"
)

// ear is the host at one of its own link addresses, which it has for each key pair
// of its own: links that share a key pair share an ear.
type ear struct {
	address   netip.Addr
	probes    *gonet.UDPConn
	listeners map[*listener]*gonet.TCPListener // protected by the fabric's mu
}

// openEars makes the host listen at the link address of each of these keys. f.mu is
// held.
func (f *Fabric) openEars(keys []device.NoisePublicKey) error {
	wanted := slices.Collect(maps.Keys(f.ears))
	for _, k := range keys {
		wanted = append(wanted, linkAddress(k))
	}
	if err := f.own(wanted); err != nil {
		return err
	}
	for _, a := range wanted {
		if f.ears[a] != nil {
			continue
		}
		probes, err := f.host.listenUDP(netip.AddrPortFrom(a, probePort))
		if err != nil {
			return fmt.Errorf("listen for link probes on %v: %w", a, err)
		}
		e := &ear{address: a, probes: probes, listeners: make(map[*listener]*gonet.TCPListener)}
		f.ears[a] = e
		f.done.Go(func() { f.receiveProbes(e) })
		for s := range f.listeners {
			if err := f.hear(e, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// closeEars closes the ears of which no link is left. f.mu is held.
func (f *Fabric) closeEars() error {
	used := make(map[netip.Addr]bool)
	for _, l := range *f.links.Load() {
		used[l.own] = true
	}
	for a, e := range f.ears {
		if !used[a] {
			delete(f.ears, a)
			e.probes.Close()
			for s := range e.listeners {
				e.deafen(s)
			}
		}
	}
	return f.own(slices.Collect(maps.Keys(f.ears)))
}

// own gives the host these link addresses, those of the gateway's table, and those that
// are mapped. f.mu is held.
func (f *Fabric) own(addresses []netip.Addr) error {
	addresses = append(addresses, f.Gateway.Table().Addresses()...)
	for _, m := range f.host.relay.Mappings() {
		addresses = append(addresses, m.External)
	}
	return f.host.setAddresses(addresses)
}
