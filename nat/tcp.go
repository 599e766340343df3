package nat

import "strait.dev/strait/packet"

// Direction is the direction of a packet through a masquerade.
type Direction uint8

// The directions.
const (
	Outgoing Direction = iota // from inside to the remote
	Incoming                  // from the remote to inside
)

// TCPState is the state of a TCP connection as observed by a masquerade. The zero value is a
// connection without packets. Sequence numbers are not checked: a forged segment can change
// a timeout, but not let a packet through.
type TCPState uint8

// The observed events. A connection is open once both ends have sent a SYN, in either order
// (RFC 9293 section 3.5, figures 6 to 8), and another segment has followed.
const (
	synOut TCPState = 1 << iota
	synIn
	open
	finOut
	finIn
	reset // the last segment was a RST

	synBoth = synOut | synIn
	finBoth = finOut | finIn
)

// Next returns the state after a segment with these flags.
//
// A RST does not end the connection (RFC 7857 section 2.2): it may be forged or stray. It
// makes the connection transitory until another segment follows. A SYN from inside starts a
// new connection once the previous one was reset or closed; a SYN from outside does not,
// because two forged segments could then reset the state of an open connection.
func (s TCPState) Next(d Direction, flags uint8) TCPState {
	switch {
	case flags&packet.TCPFlagRST != 0:
		return s | reset
	case flags&packet.TCPFlagSYN != 0:
		return s.synchronize(d, flags)
	}
	switch {
	case s&synBoth == synBoth, s&synBoth == 0 && d == Incoming:
		// The second case: the SYNs were not observed because the gateway started later, and
		// both ends have sent now (a packet from inside created the flow).
		s |= open
	}
	if s&open == 0 {
		return s
	}
	s &^= reset
	if flags&packet.TCPFlagFIN != 0 {
		if d == Outgoing {
			return s | finOut
		}
		return s | finIn
	}
	return s
}

func (s TCPState) synchronize(d Direction, flags uint8) TCPState {
	over := s&reset != 0 || s&finBoth == finBoth
	switch {
	case d == Outgoing && over && flags&packet.TCPFlagACK != 0:
		return synBoth // answers a SYN that arrived after the previous connection had ended
	case d == Outgoing && over:
		return synOut
	case s&open != 0:
		return s // a duplicate, or an end that lost its state: the other end answers it
	case d == Outgoing:
		return s | synOut
	default:
		return s | synIn
	}
}

// Established reports whether the connection is open and neither closed by both ends nor
// reset. It may then be idle for hours (RFC 5382 REQ-5). All other states are transitory.
func (s TCPState) Established() bool {
	return s&open != 0 && s&reset == 0 && s&finBoth != finBoth
}

// String returns the name of the state for display.
func (s TCPState) String() string {
	switch {
	case s&reset != 0:
		return "reset"
	case s&open == 0:
		return "opening"
	case s&finBoth == finBoth:
		return "closing"
	case s&finBoth != 0:
		return "half-closed"
	}
	return "established"
}
