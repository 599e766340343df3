package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/gateway"
	"strait.dev/strait/tun"
	"strait.dev/strait/underlay"
)

// datagramCharge is what the kernel charges a receive queue for one datagram at
// most, bytes: one that would fit a page is charged with its bookkeeping.
const datagramCharge = 2304

// hop is one way between two sockets on loopback, a gateway's and a node's: a batch
// is put into the receive queue, and then all of it is taken out again. Nobody
// waits and nobody is woken, so what either half costs is the socket's own.
type hop struct {
	from, to *underlay.Socket
	at       underlay.Destination
	batch    *underlay.Batch
	receiver *underlay.Receiver
	head     []byte   // of every datagram
	bodies   [][]byte // of one batch
}

// newHop makes a hop for as many datagrams as a gateway moves at once, or as fit the
// queue.
func newHop(from, to *underlay.Socket, sizes []int) *hop {
	count := max(1, min(tun.BatchSize, to.Features().ReceiveBuffer/datagramCharge))
	h := &hop{
		from: from, to: to, at: underlay.NewDestination(to.LocalAddr()),
		batch: underlay.NewBatch(count), receiver: underlay.NewReceiver(to),
		head: make([]byte, gateway.EncapLen), bodies: make([][]byte, count),
	}
	for i := range h.bodies {
		h.bodies[i] = make([]byte, sizes[i%len(sizes)])
	}
	return h
}

// send fills the queue.
func (h *hop) send() (datagrams int) {
	for _, body := range h.bodies {
		h.batch.Add(h.from, &h.at, h.head, body)
	}
	sent, _ := h.batch.Flush()
	return sent
}

// receive empties the queue.
func (h *hop) receive() (datagrams int) {
	for n, err := h.receiver.Fill(); n > 0 && err == nil; n, err = h.receiver.Fill() {
		for _, _, ok := h.receiver.Next(); ok; _, _, ok = h.receiver.Next() {
			datagrams++
		}
	}
	return datagrams
}

// socketPrice says what a gateway's socket takes of the CPU for sending to a node,
// or for receiving from it. The gateway's does what it can, the node's segments and
// coalesces with offload. The sender's thread carries a datagram through the
// receiver's kernel too, up to its queue: on loopback nobody else does.
func socketPrice(receiving bool, sizes []int, offload bool) func(context.Context, effort) (map[string]float64, error) {
	return func(_ context.Context, e effort) (_ map[string]float64, err error) {
		own, err := underlay.Listen(netip.AddrPortFrom(planA.gateway, 0), underlay.Options{})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, own.Close()) }()
		node, err := underlay.Listen(netip.AddrPortFrom(planA.node, 0), underlay.Options{DisableGRO: !offload, DisableGSO: !offload})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, node.Close()) }()

		if receiving {
			return newHop(node, own, sizes).price(e.operation, false)
		}
		return newHop(own, node, sizes).price(e.operation, true)
	}
}

// price fills and empties the queue in turn until the half that is asked for has
// taken the budget.
func (h *hop) price(budget time.Duration, sending bool) (map[string]float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var used time.Duration
	rounds := 0
	for warm := false; used < budget; warm = true {
		begin, err := measure.ThreadTime()
		if err != nil {
			return nil, err
		}
		sent := h.send()
		middle, err := measure.ThreadTime()
		if err != nil {
			return nil, err
		}
		received := h.receive()
		end, err := measure.ThreadTime()
		if err != nil {
			return nil, err
		}
		if sent != len(h.bodies) || received != sent {
			return nil, fmt.Errorf("of %d datagrams %d were sent and %d arrived on loopback: see whether a packet filter drops them", len(h.bodies), sent, received)
		}
		switch {
		case !warm: // memory is touched for the first time
			continue
		case sending:
			used += middle - begin
		default:
			used += end - middle
		}
		rounds++
	}
	return map[string]float64{"CPU-ns/pkt": float64(used) / float64(rounds*len(h.bodies))}, nil
}
