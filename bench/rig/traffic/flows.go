package traffic

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"time"

	"strait.dev/strait/bench/measure"
)

// Flows asks for UDP packets over IPv4 at a fixed rate, each of another flow than the
// one before.
type Flows struct {
	To   netip.Addr
	From netip.Addr // of new flows the first of newAddresses
	// Count is how many flows take turns, up to portsEach, whose packets are counted
	// by the end they come to. 0: every packet is the first one of its flow, and is
	// answered.
	Count    int
	Size     int     // payload, bytes
	Rate     float64 // packets per second
	Duration time.Duration
}

// FlowsSent is what came of flows.
type FlowsSent struct {
	Packets  Sent
	Answered int // of new flows
}

// Flows differ in the source's port, and new ones in its address too.
const (
	firstPort = 1024
	portsEach = 1<<16 - firstPort
	// newAddresses are enough for eight million new flows, until they begin anew.
	newAddresses = 126
)

// source is the one of a flow's packets.
func source(first netip.Addr, flow uint32) netip.AddrPort {
	a := first.As4()
	a[3] += byte(flow / portsEach % newAddresses)
	return netip.AddrPortFrom(netip.AddrFrom4(a), uint16(firstPort+flow%portsEach))
}

// SendFlows returns when all is sent and, of new flows, answered as far as it will be.
func (e *End) SendFlows(f Flows, sent *FlowsSent) error {
	if f.Count > 0 {
		var next uint32
		return f.send(portUDPSink, make([]byte, f.Size), &sent.Packets, func() uint32 {
			next++
			return next % uint32(f.Count)
		})
	}
	// What belongs to this trial begins with its moment.
	payload := make([]byte, max(f.Size, dueLen))
	binary.BigEndian.PutUint64(payload, uint64(monotonic()))
	responses, err := listenUnbound(netip.AddrPortFrom(f.To, portUDPEcho), payload[:dueLen])
	if err != nil {
		return err
	}
	err = f.send(portUDPEcho, payload, &sent.Packets, func() uint32 { return e.flows.Add(1) })
	sent.Answered = responses.settle(sent.Packets.Sent)
	return err
}

// send sends with a payload, each packet from the flow that next says.
func (f *Flows) send(port uint16, payload []byte, sent *Sent, next func() uint32) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	measure.Sharp()
	raw, err := newRawUDP(netip.AddrPortFrom(f.To, port), payload)
	if err != nil {
		return err
	}
	defer raw.close()
	sent.Wanted, sent.Sent = measure.Offer(measure.NewClock(), measure.Pace{Rate: f.Rate}, f.Duration, func(n int) (taken int) {
		for range n {
			if raw.send(source(f.From, next())) {
				taken++
			}
		}
		return taken
	})
	return nil
}

// SendFlows sends packets of many flows and returns when they are sent and answered.
func (c *Client) SendFlows(f Flows) (FlowsSent, error) { return call[FlowsSent](c, "SendFlows", f) }
