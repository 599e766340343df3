package relay

import "time"

// Limits bound what callers can make the relay hold. Fields that are zero are those of
// DefaultLimits.
type Limits struct {
	Connections Quota // of TCP, those that are being dialled and those that end included
	Sessions    Quota // of UDP

	// LargeBuffers is how many TCP connections at once may have buffers that grow as far as the
	// stack's own limits allow. Others have buffers of smallBuffer bytes each way.
	LargeBuffers int

	Dial       time.Duration // until a target has answered a SYN, and a caller the SYN-ACK
	Idle       time.Duration // a TCP connection on which nothing moves
	HalfClosed time.Duration // the same, after one side has ended its half
	Leaving    time.Duration // what is left to send after both sides have ended
	Session    time.Duration // a UDP session in which neither side sends
	Query      time.Duration // the same, to port 53
	TimeWait   int           // connections that only wait for late segments (RFC 9293 section 3.6)
}

// Quota is how many there may be at once.
type Quota struct {
	All, PerMapping, PerCaller int // a caller is an address
}

// DefaultLimits hold at worst 240 MiB: 32 connections with 2 MiB in the stack's buffers,
// 608 with 128 KiB, 128 KiB for each that is being copied, and 1024 sessions with some
// 20 KiB. What is idle holds no buffer at all, only endpoints and goroutines, some 30 KiB
// a connection.
//
// The timers: RFC 5382 REQ-5 wants 2 h 4 min and 4 min at least, RFC 4787 REQ-5 2 min,
// and recommends 5. Port 53 is a question and an answer, and REQ-5 (c) allows less for it:
// resolvers use a new port for each question.
var DefaultLimits = Limits{
	Connections:  Quota{All: 640, PerMapping: 512, PerCaller: 256},
	Sessions:     Quota{All: 1024, PerMapping: 512, PerCaller: 256},
	LargeBuffers: 32,
	Dial:         10 * time.Second,
	Idle:         2*time.Hour + 4*time.Minute,
	HalfClosed:   4 * time.Minute,
	Leaving:      time.Minute,
	Session:      5 * time.Minute,
	Query:        15 * time.Second,
	TimeWait:     2048,
}

// withDefaults gives the fields that are zero their values.
func (l Limits) withDefaults() Limits {
	d := &DefaultLimits
	for _, q := range []struct{ have, use *Quota }{{&l.Connections, &d.Connections}, {&l.Sessions, &d.Sessions}} {
		orElse(&q.have.All, q.use.All)
		orElse(&q.have.PerMapping, q.use.PerMapping)
		orElse(&q.have.PerCaller, q.use.PerCaller)
	}
	orElse(&l.LargeBuffers, d.LargeBuffers)
	orElse(&l.TimeWait, d.TimeWait)
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
