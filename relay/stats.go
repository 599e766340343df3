package relay

import "sync/atomic"

// Refusal is why a connection or session did not come about.
type Refusal uint8

// The refusals. The first three are the relay's own, and callers are told "prohibited".
const (
	TooMany           Refusal = iota // Quota.All
	TooManyOfMapping                 // Quota.PerMapping
	TooManyOfCaller                  // Quota.PerCaller
	TargetRefused                    // the target reset the connection, or says that the port is unreachable
	TargetUnreachable                // there is no way to the target
	TargetSilent                     // the target did not answer
	CallerSilent                     // the caller did not answer the SYN-ACK: perhaps it never sent the SYN
	Withdrawn                        // the mapping ended meanwhile
	NoSocket                         // the gateway's machine has no socket or port for it

	Refusals = iota // how many there are
)

var refusalNames = [Refusals]string{
	TooMany: "too_many", TooManyOfMapping: "too_many_of_mapping", TooManyOfCaller: "too_many_of_caller",
	TargetRefused: "target_refused", TargetUnreachable: "target_unreachable", TargetSilent: "target_silent",
	CallerSilent: "caller_silent", Withdrawn: "withdrawn", NoSocket: "no_socket",
}

// String names the refusal as metrics do.
func (r Refusal) String() string { return refusalNames[r] }

// Stats are what the relay did, for one protocol.
type Stats struct {
	Open               int              // now, those that are being dialled and those that end included
	Opened             uint64           // target and caller have both answered; a UDP session has its socket
	Refused            [Refusals]uint64 // by Refusal
	Expired            uint64           // ended because nothing moved for too long
	ToTarget, ToCaller uint64           // bytes of payload
	Lost               uint64           // datagrams that one side could not be sent
}

// EchoStats are what became of pings to mapped addresses.
type EchoStats struct {
	Answered, Down, Refused uint64 // the target is up; is not; too many were waiting or sent
}

// counters are the Stats that only grow.
type counters struct {
	opened, expired, toTarget, toCaller, lost atomic.Uint64
	refused                                   [Refusals]atomic.Uint64
}

func (c *counters) stats(open int) Stats {
	s := Stats{
		Open: open, Opened: c.opened.Load(), Expired: c.expired.Load(),
		ToTarget: c.toTarget.Load(), ToCaller: c.toCaller.Load(), Lost: c.lost.Load(),
	}
	for i := range s.Refused {
		s.Refused[i] = c.refused[i].Load()
	}
	return s
}

// TCP counts connections.
func (r *Relay) TCP() Stats { return r.tcp.stats(r.connections.taken()) }

// UDP counts sessions.
func (r *Relay) UDP() Stats { return r.udp.stats(r.sessions.taken()) }

// Echo counts pings.
func (r *Relay) Echo() EchoStats {
	return EchoStats{Answered: r.echo.answered.Load(), Down: r.echo.down.Load(), Refused: r.echo.refused.Load()}
}
