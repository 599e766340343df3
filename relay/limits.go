package relay

import "time"

// Limits limit the state that clients can create in the relay. Zero fields have the values of DefaultLimits.
type Limits struct {
	Connections Quota // TCP to mapped addresses, including those being dialled and those being closed
	Sessions    Quota // UDP

	ProxyConnections, ProxySessions     Quota // the same to proxied addresses
	ForwardConnections, ForwardSessions Quota // the same of forwards

	// LargeBuffers is the number of TCP connections whose buffers may grow to the stack's own limits. SmallBuffers is
	// that of further ones with buffers of smallBuffer bytes each way; all others have leastBuffer.
	LargeBuffers, SmallBuffers int

	// Room is the idle time after which a connection or session ends if another one needs its place: the one that was idle
	// for the longest time.
	Room time.Duration

	Dial       time.Duration // for a target to answer the SYN, and a client the SYN-ACK
	Idle       time.Duration // idle timeout of a TCP connection
	HalfClosed time.Duration // the same, after one side has closed its half
	Leaving    time.Duration // to send remaining data after both sides have closed
	Session    time.Duration // idle timeout of a UDP session
	Query      time.Duration // the same for port 53
	TimeWait   int           // connections in TIME-WAIT (RFC 9293 section 3.6)

	Try   time.Duration // for a target of a forward to answer the SYN, if there are others to try
	Aside time.Duration // for which a forward avoids a target to which it could not connect
}

// Quota is a number of connections or sessions that may be open at once.
type Quota struct {
	All, PerMapping, PerCaller int // PerMapping: per served address or forward; PerCaller: per client address
}

// DefaultLimits allow at most 240 MiB: 32 connections with 2 MiB in the stack's buffers, 608 with 128 KiB, 128 KiB for
// each one that is copying, and 1024 sessions with about 20 KiB. Idle connections hold no buffer, only endpoints and
// goroutines, about 30 KiB each. Proxied addresses and forwards allow 128 MiB more, with 32 KiB for each connection. All
// connections from a remote cluster without nodes have the address of its gateway.
//
// The timers: RFC 5382 REQ-5 requires at least 2 h 4 min and 4 min; RFC 4787 REQ-5 at least 2 min, and recommends 5, which
// Room cuts only when a limit is reached: otherwise idle clients would keep others out for hours. RFC 4787
// allows less for port 53 (REQ-5 (c)), where a session is one query and one response: resolvers use a new port for each
// query.
var DefaultLimits = Limits{
	Connections:        Quota{All: 640, PerMapping: 512, PerCaller: 256},
	Sessions:           Quota{All: 1024, PerMapping: 512, PerCaller: 256},
	ProxyConnections:   Quota{All: 2048, PerMapping: 1024, PerCaller: 2048},
	ProxySessions:      Quota{All: 2048, PerMapping: 1024, PerCaller: 2048},
	ForwardConnections: Quota{All: 2048, PerMapping: 1024, PerCaller: 512},
	ForwardSessions:    Quota{All: 2048, PerMapping: 1024, PerCaller: 512},

	LargeBuffers: 32,
	SmallBuffers: 608,
	Room:         2 * time.Minute,
	Dial:         10 * time.Second,
	Idle:         2*time.Hour + 4*time.Minute,
	HalfClosed:   4 * time.Minute,
	Leaving:      time.Minute,
	Session:      5 * time.Minute,
	Query:        15 * time.Second,
	TimeWait:     2048,
	Try:          3 * time.Second,
	Aside:        10 * time.Second,
}

// withDefaults replaces zero fields by their defaults.
func (l Limits) withDefaults() Limits {
	d := &DefaultLimits
	for _, q := range []struct{ have, use *Quota }{
		{&l.Connections, &d.Connections}, {&l.Sessions, &d.Sessions}, {&l.ProxyConnections, &d.ProxyConnections},
		{&l.ProxySessions, &d.ProxySessions}, {&l.ForwardConnections, &d.ForwardConnections}, {&l.ForwardSessions, &d.ForwardSessions},
	} {
		orElse(&q.have.All, q.use.All)
		orElse(&q.have.PerMapping, q.use.PerMapping)
		orElse(&q.have.PerCaller, q.use.PerCaller)
	}
	orElse(&l.LargeBuffers, d.LargeBuffers)
	orElse(&l.SmallBuffers, d.SmallBuffers)
	orElse(&l.TimeWait, d.TimeWait)
	orElse(&l.Try, d.Try)
	orElse(&l.Aside, d.Aside)
	orElse(&l.Room, d.Room)
	orElse(&l.Dial, d.Dial)
	orElse(&l.Idle, d.Idle)
	orElse(&l.HalfClosed, d.HalfClosed)
	orElse(&l.Leaving, d.Leaving)
	orElse(&l.Session, d.Session)
	orElse(&l.Query, d.Query)
	return l
}

func orElse[T int | time.Duration](have *T, use T) {
	if *have == 0 {
		*have = use
	}
}
