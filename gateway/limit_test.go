package gateway_test

import (
	"testing"
	"time"

	"strait.dev/strait/gateway"
)

// RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 f: errors have a rate.
func TestI4_ErrorsAreLimitedAndTheRestIsCounted(t *testing.T) {
	t.Parallel()
	a := newA(t)
	for _, c := range []struct {
		name     string
		send     func() gateway.Result
		counters *gateway.Counters
	}{
		{"egress", func() gateway.Result {
			return a.fromNode(flow{src: v4.podA, dst: v4.seenPodB, ttl: 1}.udp(nil))
		}, &a.egress.Counters},
		{"ingress", func() gateway.Result {
			return a.fromTunnel(flow{src: v4.podB, dst: v4.podA, ttl: 1}.udp(nil))
		}, &a.ingress.Counters},
	} {
		answered := uint64(0)
		for range 1000 {
			a.now = a.now.Add(time.Millisecond)
			r := c.send()
			expectDrop(t, r, gateway.TTLExceeded)
			if r.Answer != nil {
				answered++
			}
		}
		if answered < 50 || answered > 70 { // 20 at once, then 50 a second
			t.Errorf("%s: %d of 1000 answered in one second", c.name, answered)
		}
		sent, suppressed := c.counters.Answers()
		if sent != answered || suppressed != 1000-answered {
			t.Errorf("%s: counted %d answers and %d suppressed, %d were sent", c.name, sent, suppressed, answered)
		}
		if n := c.counters.Dropped(gateway.TTLExceeded); n != 1000 {
			t.Errorf("%s: counted %d drops", c.name, n)
		}
	}
}

func TestI4_TracerouteFitsIntoTheBurst(t *testing.T) {
	t.Parallel()
	a := newA(t)
	for probe := range 3 {
		for _, w := range families {
			if r := a.fromNode(flow{src: w.podA, dst: w.seenPodB, ttl: 1}.udp(nil)); r.Answer == nil {
				t.Errorf("probe %d of IPv%d was not answered", probe, r.Version)
			}
		}
	}
}

func TestI4_WhatMayNotBeAnsweredTakesNothingFromTheRate(t *testing.T) {
	t.Parallel()
	a := newA(t)
	for range 1000 {
		a.fromNode(flow{src: v4.podA, dst: v4.seenPodB, ttl: 1}.icmp(11, 3, 0, nil))
	}
	if sent, suppressed := a.egress.Answers(); sent != 0 || suppressed != 0 {
		t.Errorf("counted %d answers and %d suppressed", sent, suppressed)
	}
	if r := a.fromNode(flow{src: v4.podA, dst: v4.seenPodB, ttl: 1}.udp(nil)); r.Answer == nil {
		t.Error("nothing left")
	}
}
