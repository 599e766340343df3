package relay

import "sync/atomic"

// Refusal is why a connection or session was not established.
type Refusal uint8

// The refusals. For the first three, limits of the relay, clients get "prohibited".
const (
	TooMany           Refusal = iota // Quota.All
	TooManyOfMapping                 // Quota.PerMapping; for metrics of forwards, of one forward
	TooManyOfCaller                  // Quota.PerCaller
	TargetRefused                    // the target reset the connection, or reported the port unreachable
	TargetUnreachable                // no route to the target, or a filter rejects packets to it
	TargetSilent                     // the target did not answer
	CallerSilent                     // the client did not answer the SYN-ACK; its address may be forged
	Withdrawn                        // the mapping was removed meanwhile
	NoSocket                         // the gateway's machine is out of sockets or ports
	NoTarget                         // the forward has no target
	ForeignCaller                    // the client of a forward is not among its callers
	ForeignSource                    // a datagram to a session's socket from another address than the target's

	Refusals = iota // number of refusals
)

var refusalNames = [Refusals]string{
	TooMany: "too_many", TooManyOfMapping: "too_many_of_mapping", TooManyOfCaller: "too_many_of_caller",
	TargetRefused: "target_refused", TargetUnreachable: "target_unreachable", TargetSilent: "target_silent",
	CallerSilent: "caller_silent", Withdrawn: "withdrawn", NoSocket: "no_socket", NoTarget: "no_target", ForeignCaller: "foreign_caller",
	ForeignSource: "foreign_source",
}

// String returns the name of the refusal, as metrics show it.
func (r Refusal) String() string { return refusalNames[r] }

// Stats are the counters of one protocol.
type Stats struct {
	Open               int              // now, including those being dialled and those being closed
	Opened             uint64           // target and client have both answered; a UDP session has its socket
	Refused            [Refusals]uint64 // by Refusal
	Expired            uint64           // ended by the idle timeout
	Evicted            uint64           // idle, ended because another one needed its place
	ToTarget, ToCaller uint64           // bytes of payload
	Lost               uint64           // datagrams that could not be sent to one side
	Strays             uint64           // TCP segments of connections that another gateway may have, dropped
}

// EchoStats are the counters of pings to mapped addresses.
type EchoStats struct {
	Answered, Down, Refused uint64 // target up; target down; limit reached
}

// counters are the Stats that only increase.
type counters struct {
	opened, expired, evicted, toTarget, toCaller, lost, strays atomic.Uint64
	refused                                                    [Refusals]atomic.Uint64
}

func (c *counters) stats(open int) Stats {
	s := Stats{
		Open: open, Opened: c.opened.Load(), Expired: c.expired.Load(), Evicted: c.evicted.Load(),
		ToTarget: c.toTarget.Load(), ToCaller: c.toCaller.Load(), Lost: c.lost.Load(), Strays: c.strays.Load(),
	}
	for i := range s.Refused {
		s.Refused[i] = c.refused[i].Load()
	}
	return s
}

func (p *part) stats() (tcp, udp Stats) {
	return p.tcp.stats(p.connections.taken()), p.udp.stats(p.sessions.taken())
}

// Mapped returns the statistics of connections and sessions to mapped addresses.
func (r *Relay) Mapped() (tcp, udp Stats) { return r.ofMappings.stats() }

// Proxied returns the statistics of connections and sessions to proxied addresses.
func (r *Relay) Proxied() (tcp, udp Stats) { return r.ofProxy.stats() }

// Forwarded returns the statistics of connections and sessions of forwards.
func (r *Relay) Forwarded() (tcp, udp Stats) { return r.ofForwards.stats() }

// Echo returns the statistics of pings.
func (r *Relay) Echo() EchoStats {
	return EchoStats{Answered: r.echo.answered.Load(), Down: r.echo.down.Load(), Refused: r.echo.refused.Load()}
}
