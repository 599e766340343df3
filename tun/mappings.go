package tun

import (
	"errors"
	"maps"
	"slices"

	"strait.dev/strait/config"
	"strait.dev/strait/relay"
)

// SetMappings replaces the mappings that the host serves. Connections of mappings that are
// removed or get another target are reset before it returns, so call it while the gateway's
// table still lets the host send from their addresses. The error names the mappings that cannot
// be served; the others are served.
func (f *Fabric) SetMappings(mappings []config.Mapping) error {
	refused := f.host.relay.SetMappings(mappings)
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(refused, f.own(slices.Collect(maps.Keys(f.linkListeners))))
}

// Mappings returns the mappings that the host serves, in no order. The caller owns the list.
func (f *Fabric) Mappings() []config.Mapping { return f.host.relay.Mappings() }

// SetProxy replaces the prefixes of this cluster that the host reaches for the remote cluster. Connections to prefixes that
// are removed are reset before it returns, so call it while the gateway's table still lets the host send from them.
func (f *Fabric) SetProxy(p config.Proxy) error { return f.host.relay.SetProxy(p) }

// SetForwards replaces the ports of this machine whose connections go to the remote cluster, and the clients that may use
// them. The error names the ports that cannot be opened; the others are served.
func (f *Fabric) SetForwards(forwards []config.Forward, from config.Callers) error {
	return f.host.relay.SetForwards(forwards, from)
}

// Proxied returns the statistics of connections to proxied addresses.
func (f *Fabric) Proxied() (tcp, udp relay.Stats) { return f.host.relay.Proxied() }

// Forwarded returns the statistics of forwards.
func (f *Fabric) Forwarded() (tcp, udp relay.Stats) { return f.host.relay.Forwarded() }

// Mapped returns the statistics of mapped addresses.
func (f *Fabric) Mapped() (tcp, udp relay.Stats, echo relay.EchoStats) {
	tcp, udp = f.host.relay.Mapped()
	return tcp, udp, f.host.relay.Echo()
}
