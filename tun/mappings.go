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

// Mapped returns the statistics of mapped addresses.
func (f *Fabric) Mapped() (tcp, udp relay.Stats, echo relay.EchoStats) {
	r := f.host.relay
	return r.TCP(), r.UDP(), r.Echo()
}
