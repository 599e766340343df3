package nat_test

import (
	"fmt"
	"strings"
	"testing"

	"strait.dev/strait/nat"
)

// play runs a conversation: segments in order, ">" from inside and "<" from the
// remote, with the first letters of their flags.
func play(t *testing.T, s nat.TCPState, conversation string) nat.TCPState {
	t.Helper()
	for _, segment := range strings.Fields(conversation) {
		d := nat.Outgoing
		if segment[0] == '<' {
			d = nat.Incoming
		}
		flags := uint8(0)
		for _, c := range segment[1:] {
			flags |= map[rune]uint8{'S': syn, 'A': ack, 'F': fin, 'R': rst, 'P': psh}[c]
		}
		s = s.Next(d, flags)
	}
	return s
}

func TestRFC5382REQ2_RFC7857_EveryMasqueradedConversation(t *testing.T) {
	t.Parallel()
	const opened = ">S <SA >A "
	for _, c := range []struct{ name, conversation, want string }{
		// RFC 9293 section 3.5
		{"figure 6, three-way handshake", ">S <SA >A", "established"},
		{"figure 6, up to the answer", ">S <SA", "opening"},
		{"figure 7, simultaneous, theirs first seen after ours", ">S <S >SA <SA >PA", "established"},
		{"figure 7, as far as SYNs go", ">S <S >SA <SA", "opening"},
		{"figure 7, without a second acknowledgment", ">S <S <SA >A", "established"},
		{"figure 8, an old duplicate SYN", ">S <A >R >S <SA >A", "established"},
		{"figure 8, half way", ">S <A", "opening"},
		{"retried SYNs", ">S >S >S <SA <SA >A", "established"},
		{"data with the first acknowledgment", ">S <SA >PA", "established"},
		{"the last acknowledgment is lost", ">S <SA <PA", "established"},
		{"closed at once", ">S <SA >FA", "half-closed"},
		{"a SYN that says FIN too", ">SF <SA >A", "established"},

		// Closing, RFC 9293 section 3.6
		{"inside closes", opened + ">FA <A", "half-closed"},
		{"remote closes", opened + "<FA >A <A >PA", "half-closed"},
		{"both close", opened + ">FA <A <FA >A", "closing"},
		{"both close at once", opened + ">FA <FA >A <A", "closing"},
		{"the last FIN again", opened + ">FA <FA >A <FA >A", "closing"},
		{"a SYN from inside after closing", opened + ">FA <FA >A >S", "opening"},
		{"a whole connection after closing", opened + ">FA <FA >A >S <SA >A", "established"},
		{"the remote calls back after closing", opened + ">FA <FA >A <S >SA <A", "established"},
		{"an old acknowledgment after closing", opened + ">FA <FA >A <A", "closing"},

		// RST, RFC 7857 section 2.2
		{"refused", ">S <RA", "reset"},
		{"refused, tried again", ">S <RA >S", "opening"},
		{"refused, and nothing but a SYN opens", ">S <RA >A <A", "reset"},
		{"reset by the remote", opened + "<R", "reset"},
		{"reset from inside", opened + ">RA", "reset"},
		{"a forged RST from outside", opened + "<R >PA", "established"},
		{"a stray RST from inside", opened + ">R <A", "established"},
		{"RST while half-closed", opened + ">FA <R <A", "half-closed"},
		{"RST while closing", opened + ">FA <FA <R", "reset"},
		{"RST while closing, and the last acknowledgment", opened + ">FA <FA <R >A", "closing"},
		{"reset, opened anew", opened + "<R >S <SA >A", "established"},
		{"reset, opened anew, half way", opened + "<R >S <SA", "opening"},

		// What is forged from outside takes nothing away.
		{"a SYN from outside", opened + "<S", "established"},
		{"RST and SYN from outside", opened + "<R <S >A", "established"},
		{"a SYN from inside out of place", opened + ">S", "established"},

		// A gateway that comes late.
		{"data from inside", ">PA", "opening"},
		{"data both ways", ">PA <PA", "established"},
		{"the remote knows nothing of it", ">PA <R", "reset"},
		{"a FIN from inside", ">FA", "opening"},
		{"a FIN and its answer", ">FA <FA", "half-closed"},

		{"nothing", "", "opening"},
	} {
		if got := play(t, 0, c.conversation); got.String() != c.want {
			t.Errorf("%s: %s: %v, want %s", c.name, c.conversation, got, c.want)
		}
	}
}

// reachable are all states that segments lead to.
func reachable() map[nat.TCPState]bool {
	all := map[nat.TCPState]bool{0: true}
	for again := true; again; {
		again = false
		for s := range all {
			for flags := range uint8(32) {
				for _, d := range []nat.Direction{nat.Outgoing, nat.Incoming} {
					if next := s.Next(d, flags); !all[next] {
						all[next], again = true, true
					}
				}
			}
		}
	}
	return all
}

func TestRFC5382REQ5_RFC7857_WhatHoldsInEveryTCPState(t *testing.T) {
	t.Parallel()
	for s := range reachable() {
		name := fmt.Sprintf("state %#x, %v", uint8(s), s)
		if s >= 0x80 {
			t.Errorf("%s: uses the bit that is not its own", name)
		}
		if long := s.String() == "established" || s.String() == "half-closed"; long != s.Established() {
			t.Errorf("%s: established is %t", name, s.Established())
		}
		for _, d := range []nat.Direction{nat.Outgoing, nat.Incoming} {
			if got := s.Next(d, rst|ack); got.Established() || got.Next(d, rst) != got {
				t.Errorf("%s: a RST makes it %v", name, got)
			}
			if got := s.Next(d, rst).Next(nat.Incoming, ack); s.Established() && got != s {
				t.Errorf("%s: after a RST that was none %v", name, got)
			}
			if got := s.Next(d, ack); got.Next(d, ack) != got {
				t.Errorf("%s: an acknowledgment makes it %v, another %v", name, got, got.Next(d, ack))
			}
		}
		if got := s.Next(nat.Incoming, syn); got.Established() != s.Established() {
			t.Errorf("%s: a SYN from outside makes it %v", name, got)
		}
		if s.Established() && s.Next(nat.Outgoing, syn) != s {
			t.Errorf("%s: a SYN from inside makes it %v", name, s.Next(nat.Outgoing, syn))
		}
		if got := play(t, s, ">R >S <SA >A"); got.String() != "established" {
			t.Errorf("%s: reset and opened anew it is %v", name, got)
		}
	}
}
