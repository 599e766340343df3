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
	"strait.dev/strait/internal/plan"
	"strait.dev/strait/tun"
	"strait.dev/strait/underlay"
)

// datagramCharge is the most that the kernel charges a receive queue for one datagram, in
// bytes: a page-sized buffer with its metadata.
const datagramCharge = 2304

// hop is one direction between two sockets on loopback, a gateway's and a node's: a batch
// fills the receive queue, which is then emptied. No goroutine waits or is woken, so the
// cost of each half is the socket's own.
type hop struct {
	from, to *underlay.Socket
	at       underlay.Destination
	batch    *underlay.Batch
	receiver *underlay.Receiver
	head     []byte   // the headers of every datagram
	bodies   [][]byte // of one batch
}

// newHop returns a hop for a gateway's batch, or as much as fits the queue.
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

// socketPrice measures the CPU time of a gateway's socket for sending to a node, or for
// receiving from it. The gateway's socket uses all offloads of the kernel, the node's
// segments and coalesces with offload. On loopback the sender's thread also does the
// receiver's kernel work, up to its queue.
func socketPrice(receiving bool, sizes []int, offload bool) func(context.Context, effort) (map[string]float64, error) {
	return func(_ context.Context, e effort) (_ map[string]float64, err error) {
		own, err := underlay.Listen(netip.AddrPortFrom(plan.A.GatewayUnderlay, 0), underlay.Options{})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, own.Close()) }()
		node, err := underlay.Listen(netip.AddrPortFrom(plan.A.NodeUnderlay, 0), underlay.Options{DisableGRO: !offload, DisableGSO: !offload})
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

// price fills and empties the queue in turn until the measured half has used the budget.
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
			return nil, fmt.Errorf("of %d datagrams %d were sent and %d arrived on loopback: check for packet filters that drop them", len(h.bodies), sent, received)
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
