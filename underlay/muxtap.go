package underlay

import "net/netip"

// Tap sees the datagrams of a Mux in passing: what is sent before the kernel takes it, and
// all that is received. It is called by any number of goroutines at once, and must not
// block, allocate, change the datagram, or keep it. The address of local is unspecified:
// the kernel chooses it.
type Tap func(sent bool, local, remote netip.AddrPort, datagram []byte)

// SetTap installs a tap, or removes it with nil. It is looked up once for each batch.
func (m *Mux) SetTap(t Tap) {
	if t == nil {
		m.tap.Store(nil)
		return
	}
	m.tap.Store(&t)
}
