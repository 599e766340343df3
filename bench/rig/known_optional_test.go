//go:build nightly

package rig

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/bench/rig/traffic"
)

// tries is how often a busy machine may spoil a figure.
const tries = 4

// atLeastOnce repeats a measurement until it exceeds a bound, which a busy machine does not
// exceed by chance.
func atLeastOnce(t *testing.T, what string, bound float64, measure func() float64) {
	t.Helper()
	var found []float64
	for range tries {
		found = append(found, measure())
		if found[len(found)-1] > bound {
			return
		}
	}
	t.Errorf("%s: found %.0f, want more than %.0f", what, found, bound)
}

func TestDropRatesOfAKnownLoss(t *testing.T) {
	r := newTestRig(t)
	p := placed(t, r, plainSubject())
	const trial = 50 * time.Millisecond
	// No more consecutive packets than between two losses arrive without loss, and a sender
	// may be late by a tenth.
	bound := func(packets float64) float64 { return packets / trial.Seconds() / senderLate }
	rates := func() metrics {
		m, err := r.dropRates(p, []int{36, 1372}, trial, trial)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}

	filter(t, p, "udp dport 7003 numgen inc mod 400 == 0 drop") // 0.25 %
	atLeastOnce(t, "highest rate with a loss of 0.5 % where 0.25 % are lost", bound(400), func() float64 {
		m := rates()
		if m[unitNDR] > bound(400) {
			t.Errorf("every 400th packet is lost, and %.0f per second cross without loss", m[unitNDR])
		}
		if m[unitPDR] > 0 && m[unitPacketCPU] <= 0 {
			t.Errorf("a packet costs nothing: %v", m)
		}
		return m[unitPDR]
	})

	filter(t, p, "udp dport 7003 numgen inc mod 100 == 0 drop") // 1 %
	if m := rates(); m[unitPDR] > bound(100) || m[unitNDR] > bound(100) {
		t.Errorf("every 100th packet is lost, and the rates are %v", m)
	}
}

func TestNewFlowsAreNewAndTheirLossIsFound(t *testing.T) {
	r := newTestRig(t)
	p := placed(t, r, plainSubject())
	const trial = 50 * time.Millisecond
	const lossless = 50 / 0.050 / senderLate // per second: 50 packets in a trial

	filter(t, p, "udp dport 7004 add @sources { ip saddr . udp sport }")
	sender, _, err := r.twoEnds(p, p.a.pod, p.b.pod)
	if err != nil {
		t.Fatal(err)
	}
	var crossed int
	for range 2 { // the second trial has new flows again
		sent, err := sender.SendFlows(traffic.Flows{To: p.sees(p.b, 0), From: p.a.clients().Addr().Next(), Size: 64, Rate: 5000, Duration: trial})
		if err != nil {
			t.Fatal(err)
		}
		if sent.Answered == 0 || sent.Answered > sent.Packets.Sent {
			t.Errorf("%+v", sent)
		}
		crossed += sent.Packets.Sent
	}
	if got := sources(t, p); got != crossed {
		t.Errorf("%d packets belonged to %d flows", crossed, got)
	}

	rate := func() float64 {
		m, err := r.newFlows(p, trial)
		if err != nil {
			t.Fatal(err)
		}
		return m[unitFlowRate]
	}
	filter(t, p, "udp sport 7004 numgen inc mod 50 == 0 drop")
	if got := rate(); got > lossless {
		t.Errorf("every 50th response is lost, and %.0f per second are answered with less than one percent of loss", got)
	}
	filter(t, p, "accept")
	atLeastOnce(t, "new flows per second on a path without loss", lossless, rate)
}

func TestStallDelaysEveryRequestDueDuringIt(t *testing.T) {
	r := newTestRig(t)
	p := placed(t, r, plainSubject())
	_, answering, err := r.twoEnds(p, p.a.pod, p.b.pod)
	if err != nil {
		t.Fatal(err)
	}
	const stall, rest, rate = 200 * time.Millisecond, 400 * time.Millisecond, 500
	signal := func(s unix.Signal) {
		if err := unix.Kill(answering.process.cmd.Process.Pid, s); err != nil {
			t.Error(err)
		}
	}
	stalled := make(chan struct{})
	go func() {
		defer close(stalled)
		time.Sleep(rest / 2)
		signal(unix.SIGSTOP)
		time.Sleep(stall)
		signal(unix.SIGCONT)
	}()
	m, err := r.requests(p, rate, stall+rest)
	<-stalled
	if err != nil {
		t.Fatal(err)
	}
	// A third of the requests is due during the stall and waits for its end: half of those
	// for at least half of it. A sender that waits for responses would measure only one of
	// them.
	if got := time.Duration(m[unitLongest]); got < stall*9/10 {
		t.Errorf("a stall of %v, and the longest response took %v", stall, got)
	}
	if got := time.Duration(m["p90-ns"]); got < stall/2 {
		t.Errorf("a stall of %v for a third of the time, and p90 is %v", stall, got)
	}
}
