package config

import (
	"net/netip"
	"strconv"
)

// ListenAddress is the address of a listening socket. The zero value means not configured; an invalid Addr means all
// addresses of both families; port 0 with a valid Addr means any free port, which a file cannot express.
type ListenAddress struct {
	Addr netip.Addr
	Port uint16
}

// Configured reports whether an address is configured.
func (l ListenAddress) Configured() bool { return l != ListenAddress{} }

// String returns the format used in files: "192.0.2.10:6091", "[2001:db8::1]:6091", ":6091" for all addresses, "" when
// not configured.
func (l ListenAddress) String() string {
	switch {
	case !l.Configured():
		return ""
	case !l.Addr.IsValid():
		return ":" + strconv.Itoa(int(l.Port))
	}
	return netip.AddrPortFrom(l.Addr, l.Port).String()
}
