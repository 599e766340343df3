package packet_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/packet"
)

// Many datagrams at once, of many sizes, cut at many lengths; their fragments
// come in any order, some twice, some never.
func TestRFC4787REQ14_ReassemblyForMasqueradeAgreesWithItsTwinOnEverySenderAtOnce(t *testing.T) {
	t.Parallel()
	r := random()
	for round := range cases(200) {
		p := newPair()
		originals := map[string]bool{}
		var stream [][]byte
		lost := 0
		for i := range 1 + r.IntN(12) {
			v6 := r.IntN(2) == 0
			size := 1400 + r.IntN(6000)
			mtu := max(packet.MinIPv4MTU, size/40) + r.IntN(1300)
			if r.IntN(20) == 0 {
				size, mtu = packet.MaxLen-120, 1500
			}
			if v6 {
				mtu = max(mtu, packet.MinIPv6MTU)
			}
			id := uint32(i)
			b := randomDatagram(r, v6, id, size)
			fragments := cut(t, b, mtu, id)
			if len(fragments) == 1 {
				continue
			}
			originals[string(b)] = true
			if r.IntN(5) == 0 {
				fragments = slices.Delete(fragments, 0, 1)
				lost++
			}
			if r.IntN(3) == 0 {
				fragments = append(fragments, fragments[r.IntN(len(fragments))])
			}
			stream = append(stream, fragments...)
		}
		r.Shuffle(len(stream), func(i, j int) { stream[i], stream[j] = stream[j], stream[i] })
		made := 0
		for _, f := range stream {
			p.now = p.now.Add(time.Millisecond)
			if whole := p.add(t, f); whole != nil {
				made++
				if !originals[string(whole)] {
					t.Fatalf("round %d: no such datagram was sent: % x", round, whole[:40])
				}
			}
		}
		if made != len(originals)-lost {
			t.Fatalf("round %d: %d datagrams of %d, %d lost a fragment", round, made, len(originals), lost)
		}
		check(t, p.fast)
	}
}

func TestReassemblyAgreesWithItsTwinOnChaos(t *testing.T) {
	t.Parallel()
	r := random()
	made := 0
	for range cases(400) {
		made += checkChaos(t, randomBytes(r, chaosStep*(1+r.IntN(200))))
	}
	t.Log(made, "datagrams were complete")
	if made == 0 {
		t.Error("nothing was ever complete: the test tests nothing")
	}
}

// checkChaos compares the twins on a script, and then gives the script, without
// its lies, to a Reassembly that has hardly any memory.
func checkChaos(t *testing.T, script []byte) (made int) {
	t.Helper()
	p := newPair()
	c := chaos{script: script}
	for b, step, ok := c.next(); ok; b, step, ok = c.next() {
		p.now = p.now.Add(step)
		if p.add(t, b) != nil {
			made++
		}
	}
	check(t, p.fast)

	small := newReassembly(0, 1)
	now := start
	c = chaos{script: script, same: true}
	for b, step, ok := c.next(); ok; b, step, ok = c.next() {
		now = now.Add(step)
		ip := parse(t, b)
		whole, _, _ := small.Add(b, &ip, now)
		if whole == nil {
			continue
		}
		ip = parse(t, whole)
		if payload := whole[ip.Header:]; !bytes.Equal(payload, chaosPayload(c.id, 0, len(payload))) {
			t.Fatalf("a datagram of others' fragments: % x", whole)
		}
	}
	check(t, small)
	return made
}

func FuzzReassembly(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0}, chaosStep))
	r := random()
	for range 20 {
		f.Add(randomBytes(r, chaosStep*(1+r.IntN(60))))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		checkChaos(t, script[:min(len(script), 300*chaosStep)])
	})
}
