package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"strait.dev/strait/bench/traffic"
	"strait.dev/strait/underlay"
)

// The load of a shards test: so many datagrams per flow, and no more at once than any
// receive queue holds.
const (
	shardRounds = 16
	shardBurst  = 64
	shardSize   = 64 // bytes
)

// shards measures how the kernel distributes flows over sockets that share one port
// (SO_REUSEPORT): the share of all datagrams at the busiest socket, how many arrived at
// another socket than the first of their flow, and how many after a later one of their
// flow. A flow is a source port, which nodes choose by the hash of the inner packet.
func shards(sockets, flows int) func(context.Context, effort) (map[string]float64, error) {
	return func(context.Context, effort) (_ map[string]float64, err error) {
		s := &sharded{flows: make(map[netip.AddrPort]arrival)}
		defer func() { err = errors.Join(err, s.close()) }()
		if err := s.open(sockets, flows); err != nil {
			return nil, err
		}
		for round := range shardRounds {
			for i := 0; i < flows; i += shardBurst {
				s.send(round, i, min(i+shardBurst, flows))
				s.drain()
			}
		}
		if want := shardRounds * flows; s.total != want {
			return nil, fmt.Errorf("of %d datagrams %d arrived on loopback: check for packet filters that drop them", want, s.total)
		}
		busiest := 0
		for _, r := range s.shards {
			busiest = max(busiest, r.datagrams)
		}
		return map[string]float64{
			"busiest-share": float64(busiest) / float64(s.total), "moved-pkts": float64(s.moved), "late-pkts": float64(s.late),
		}, nil
	}
}

// sharded is several sockets on one port, and flows to it.
type sharded struct {
	to      underlay.Destination
	senders []*underlay.Socket // one for each flow
	shards  []*shard
	flows   map[netip.AddrPort]arrival // the last arrival of each flow, by source

	total, moved, late int // datagrams
}

type (
	shard struct {
		socket    *underlay.Socket
		receiver  *underlay.Receiver
		datagrams int
	}
	arrival struct {
		shard int    // where the flow's first datagram arrived
		round uint32 // round of its latest datagram
	}
)

func (s *sharded) open(sockets, flows int) error {
	at := netip.AddrPortFrom(planA.gateway, 0)
	for range sockets {
		socket, err := underlay.Listen(at, underlay.Options{ReusePort: true})
		if err != nil {
			return err
		}
		at = socket.LocalAddr() // the other sockets use the port of the first
		s.shards = append(s.shards, &shard{socket: socket, receiver: underlay.NewReceiver(socket)})
	}
	s.to = underlay.NewDestination(at)
	for range flows {
		socket, err := underlay.Listen(netip.AddrPortFrom(planA.node, 0), underlay.Options{})
		if err != nil {
			return err
		}
		s.senders = append(s.senders, socket)
	}
	return nil
}

// send sends the datagrams of a round of some flows.
func (s *sharded) send(round, first, end int) {
	batch := underlay.NewBatch(shardBurst)
	datagram := make([]byte, shardSize)
	traffic.Mark{Number: uint32(round)}.Put(datagram)
	for _, sender := range s.senders[first:end] {
		batch.Add(sender, &s.to, nil, datagram)
	}
	batch.Flush()
}

// drain receives all waiting datagrams.
func (s *sharded) drain() {
	for i, r := range s.shards {
		for n, err := r.receiver.Fill(); n > 0 && err == nil; n, err = r.receiver.Fill() {
			for datagram, from, ok := r.receiver.Next(); ok; datagram, from, ok = r.receiver.Next() {
				s.take(i, datagram, from)
			}
		}
	}
}

// take counts a datagram that arrived at a shard.
func (s *sharded) take(at int, datagram []byte, from netip.AddrPort) {
	m, ok := traffic.MarkOf(datagram)
	if !ok {
		return
	}
	s.total++
	s.shards[at].datagrams++
	last, known := s.flows[from]
	switch {
	case !known:
		last.shard = at
	case m.Number < last.round:
		s.late++
	}
	if last.shard != at {
		s.moved++
	}
	last.round = max(last.round, m.Number)
	s.flows[from] = last
}

func (s *sharded) close() (err error) {
	for _, r := range s.shards {
		err = errors.Join(err, r.socket.Close())
	}
	for _, sender := range s.senders {
		err = errors.Join(err, sender.Close())
	}
	return err
}
