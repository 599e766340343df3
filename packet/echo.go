package packet

// IsEchoRequest reports whether b is an echo request, RFC 792 and RFC 4443 section 4.1.
func IsEchoRequest(b []byte, ip *IP) bool {
	u := ip.Upper(b)
	return len(u) > 0 && (ip.Version == 4 && ip.Proto == ProtoICMP && u[0] == 8 || ip.Version == 6 && ip.Proto == ProtoICMPv6 && u[0] == 128)
}
