//go:build linux

package underlay

import "net/netip"

// Tap sees the datagrams of a Mux: sent ones before the kernel takes them, and all received ones. It is
// called by several goroutines concurrently, and must not block, allocate, change the datagram, or keep
// it. The address of local is unspecified, because the kernel chooses it.
type Tap func(sent bool, local, remote netip.AddrPort, datagram []byte)

// SetTap installs a tap, or removes it with nil. The tap is loaded once per batch.
func (m *Mux) SetTap(t Tap) {
	if t == nil {
		m.tap.Store(nil)
		return
	}
	m.tap.Store(&t)
}
