//go:build linux

package traffic

import (
	"encoding/binary"
	"net/netip"
	"runtime"

	"strait.dev/strait/bench/measure"
)

// Flows differ in the source port, new ones also in the source address.
const (
	firstPort = 1024
	portsEach = 1<<16 - firstPort
	// beginLen is the length in bytes of what the payloads of a trial start with.
	beginLen = 8
	// newAddresses are enough for eight million new flows, before they repeat.
	newAddresses = 126
)

func source(first netip.Addr, flow uint32) netip.AddrPort {
	a := first.As4()
	a[3] += byte(flow / portsEach % newAddresses)
	return netip.AddrPortFrom(netip.AddrFrom4(a), uint16(firstPort+flow%portsEach))
}

// SendFlows returns when all packets are sent and new flows are answered.
func (e *End) SendFlows(f Flows, sent *FlowsSent) error {
	if f.Count > 0 {
		var next uint32
		return f.send(portUDPSink, make([]byte, f.Size), &sent.Packets, func() uint32 {
			next++
			return next % uint32(f.Count)
		})
	}
	// The payloads of a trial start with its time.
	payload := make([]byte, max(f.Size, beginLen))
	binary.BigEndian.PutUint64(payload, uint64(monotonic()))
	responses, err := listenUnbound(netip.AddrPortFrom(f.To, portUDPEcho), payload[:beginLen])
	if err != nil {
		return err
	}
	err = f.send(portUDPEcho, payload, &sent.Packets, func() uint32 { return e.flows.Add(1) })
	sent.Answered = responses.close(sent.Packets.Sent)
	return err
}

// send sends a payload, with the flow of each packet from next.
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
