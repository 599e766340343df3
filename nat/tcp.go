package nat

import "strait.dev/strait/packet"

// Direction is the way that a packet goes through a masquerade.
type Direction uint8

// The directions.
const (
	Outgoing Direction = iota // from inside to the remote
	Incoming                  // from the remote to inside
)

// TCPState is what a masquerade has seen of a TCP connection. The zero value is
// a connection of which nothing was seen yet. Sequence numbers are not looked
// at: who wants to deceive this machine gets a timer wrong, not a packet through.
type TCPState uint8

// What was seen. A connection is open once both ends have sent a SYN, in
// whichever order (RFC 9293 sections 3.5, figures 6 to 8), and anything after.
const (
	synOut TCPState = 1 << iota
	synIn
	open
	finOut
	finIn
	reset // the last word was a RST

	synBoth = synOut | synIn
	finBoth = finOut | finIn
)

// Next is the state after a segment with these flags.
//
// A RST ends nothing (RFC 7857 section 2.2): it may be forged or stray. It makes
// the connection transitory until one of its ends goes on talking. A SYN from
// inside begins anew once a connection was reset or closed; one from outside does
// not, or else two forged segments could unmake an open connection's state.
func (s TCPState) Next(d Direction, flags uint8) TCPState {
	switch {
	case flags&packet.TCPFlagRST != 0:
		return s | reset
	case flags&packet.TCPFlagSYN != 0:
		return s.synchronize(d, flags)
	}
	switch {
	case s&synBoth == synBoth, s&synBoth == 0 && d == Incoming:
		// The second: nobody's SYN was seen, this gateway came late, and now both
		// ends have spoken (the flow was made by a packet from inside).
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
		return synBoth // answers a SYN that came in when the last connection was over
	case d == Outgoing && over:
		return synOut
	case s&open != 0:
		return s // a duplicate, or an end that lost its memory: the other will tell it
	case d == Outgoing:
		return s | synOut
	default:
		return s | synIn
	}
}

// Established reports whether the connection is open and neither closed by both
// ends nor reset: RFC 5382 REQ-5 lets it be idle for hours. All else is transitory.
func (s TCPState) Established() bool {
	return s&open != 0 && s&reset == 0 && s&finBoth != finBoth
}

// String names the state for people.
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
