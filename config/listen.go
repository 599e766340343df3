package config

import (
	"net/netip"
	"strconv"
)

// ListenAddress is where a socket listens. The zero value is not configured; an
// invalid Addr means all addresses of both families; port 0 with a valid Addr
// means any free port, which a file cannot ask for.
type ListenAddress struct {
	Addr netip.Addr
	Port uint16
}

// Configured reports whether there is anything to listen on.
func (l ListenAddress) Configured() bool { return l != ListenAddress{} }

// String is the form used in files: "192.0.2.10:6091", "[2001:db8::1]:6091",
// ":6091" for all addresses, "" when not configured.
func (l ListenAddress) String() string {
	switch {
	case !l.Configured():
		return ""
	case !l.Addr.IsValid():
		return ":" + strconv.Itoa(int(l.Port))
	}
	return netip.AddrPortFrom(l.Addr, l.Port).String()
}
