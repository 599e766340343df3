//go:build nightly

package rig

import (
	"math"
	"os/exec"
	"testing"
	"time"

	"strait.dev/strait/bench/rig/traffic"
)

// Tests of the rig itself: on paths whose results are known.

func TestAKnownLossIsMeasured(t *testing.T) {
	r := newTestRig(t)
	p := placed(t, r, plainSubject())
	const everyTenth = `table ip known {
	chain forward {
		type filter hook forward priority filter;
		udp dport 7003 numgen inc mod 10 == 0 drop
	}
}`
	if err := p.a.gw.run(everyTenth, "nft", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	m, err := r.fixedRate(p, traffic.Blast{Sizes: []int{64}, Rate: 5000, Duration: 400 * time.Millisecond, Burst: 10})
	if err != nil {
		t.Fatal(err)
	}
	// 2 000 datagrams, of which 200 are dropped; an idle path drops no others.
	if got := m[unitLoss]; math.Abs(got-0.1) > 0.001 {
		t.Errorf("a path that drops every tenth datagram: loss %.4f, want 0.1", got)
	}
	if got := m[unitPacketRate]; got > 4500 || got < senderLate*4500 {
		t.Errorf("5000 per second less a tenth arrive as %.0f", got)
	}
	if best, err := r.packetRate(p, 64, 50*time.Millisecond); err != nil || best[unitPacketRate] != 0 {
		t.Errorf("every rate loses at least one percent, but %v was found (%v)", best, err)
	}
}

func TestCPUTimeIsThatOfTheProcessesOnly(t *testing.T) {
	r := newTestRig(t)
	p := placed(t, r, plainSubject())
	before, err := r.usage(p.topology)
	if err != nil {
		t.Fatal(err)
	}
	const work = `i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done`
	if err := exec.Command("sh", "-c", work).Run(); err != nil { // not accounted to the rig
		t.Fatal(err)
	}
	worker, err := p.a.gw.start(p.ends, r.dir, nil, nil, "sh", "-c", work)
	if err != nil {
		t.Fatal(err)
	}
	<-worker.exited
	after, err := r.usage(p.topology)
	if err != nil {
		t.Fatal(err)
	}
	state := worker.cmd.ProcessState
	want := (state.UserTime() + state.SystemTime()).Seconds()
	used := after.since(before)
	if got := used.ends.Seconds(); math.Abs(got-want) > 0.25*want+0.02 {
		t.Errorf("the ends used %.3f s, but their only process reports %.3f s", got, want)
	}
	if used.gateways != 0 {
		t.Errorf("the gateways used %v, but there are none", used.gateways)
	}
}
