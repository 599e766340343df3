package tun

import (
	"errors"
	"maps"
	"slices"

	"strait.dev/strait/config"
	"strait.dev/strait/relay"
)

// SetMappings makes the host serve exactly these mappings. Connections of those that are
// gone, or have another target, are reset before it returns; so it is called while the
// gateway's table still lets the host send from their addresses. Mappings that the host
// refuses to serve are named in the error, and the others are served all the same.
func (f *Fabric) SetMappings(mappings []config.Mapping) error {
	refused := f.host.relay.SetMappings(mappings)
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(refused, f.own(slices.Collect(maps.Keys(f.linkListeners))))
}

// Mappings are those that the host serves, in no order. The list is the caller's.
func (f *Fabric) Mappings() []config.Mapping { return f.host.relay.Mappings() }

// Mapped counts what the host did for mapped addresses.
func (f *Fabric) Mapped() (tcp, udp relay.Stats, echo relay.EchoStats) {
	r := f.host.relay
	return r.TCP(), r.UDP(), r.Echo()
}
