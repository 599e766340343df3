package rig

import (
	"fmt"
	"slices"
	"time"

	"strait.dev/strait/bench/rig/traffic"
)

// test is one measurement and its subjects.
type test struct {
	name     string
	mode     Mode
	subjects []string
	measure  func(r *Rig, p *setting) (metrics, error)
	optional bool // not part of the usual run
}

// lengths are the durations of single measurements.
type lengths struct {
	streams, datagrams, trial, roundTrips time.Duration
}

var (
	fullLengths  = lengths{streams: 1500 * time.Millisecond, datagrams: 1500 * time.Millisecond, trial: 400 * time.Millisecond, roundTrips: 1500 * time.Millisecond}
	quickLengths = lengths{streams: 500 * time.Millisecond, datagrams: 500 * time.Millisecond, trial: 200 * time.Millisecond, roundTrips: 500 * time.Millisecond}
)

func tcpName(streams int, direction string) string {
	return fmt.Sprintf("tcp/streams=%d/direction=%s", streams, direction)
}

// Directions of the data; the sender also opens the connection.
const (
	forth = "a-to-b"
	back  = "b-to-a"
)

// tcp measures streams between the pods.
func tcp(streams int, direction string, f int, l lengths) func(*Rig, *setting) (metrics, error) {
	return func(r *Rig, p *setting) (metrics, error) {
		from, to := p.a, p.b
		if direction == back {
			from, to = to, from
		}
		s := traffic.Streams{To: p.sees(to, f), From: make([]traffic.Source, streams)}
		return r.streams(p, from.pod, to.pod, s, l.streams)
	}
}

// Names of the tests to which demands refer.
const (
	testTCP6         = "tcp6/streams=1/direction=a-to-b"
	testFixedRate    = "udp/payload=64/rate=20k"
	testRoundTrip    = "request-response/connections=1"
	testRoundTrips   = "request-response/connections=16"
	testFirstPacket  = "first-packet"
	testHop          = "udp-hop"
	testHopForwarded = "udp-hop-forwarded"
	testAEAD         = "aead"
	testMemory       = "memory/peak"
	testNodes        = "tcp/streams=256/nodes"
	testResident     = "memory/idle"
	testReload       = "request-response/while=reload"
)

// Payloads of the loss search: 64 bytes, and that of a packet that fits every tunnel.
var payloads = []int{64, 1400 - 28}

func packetRateName(payload int) string {
	return fmt.Sprintf("udp/payload=%d/loss-search", payload)
}

// gatewayNames returns the names of the subjects that are complete gateways.
func gatewayNames(mode Mode, custom []string) []string {
	gateways := append([]string{nameP, nameStrait, nameBaseline}, custom...)
	if mode == Wire {
		gateways = append([]string{nameP1}, gateways...)
	}
	return gateways
}

func usualTests(mode Mode, l lengths, custom []string) (all []test) {
	add := func(name string, measure func(*Rig, *setting) (metrics, error), subjects ...string) {
		all = append(all, test{name: name, mode: mode, subjects: subjects, measure: measure})
	}
	gateways := gatewayNames(mode, custom)
	limits := []string{namePlain, nameOverlay, nameWireGuardGo, nameWireGuardKernel}
	counts := []int{1, 4}
	if mode == SameHost {
		counts = []int{1}
	}
	for _, streams := range counts {
		for _, direction := range []string{forth, back} {
			who := slices.Clone(gateways)
			if streams == 1 && direction == forth && mode != SameHost {
				who = append(append(who, limits...), nameStraitOver6)
			}
			add(tcpName(streams, direction), tcp(streams, direction, 0, l), who...)
		}
	}
	switch mode {
	case NoGRO:
		add(testTCP6, tcp(1, forth, 1, l), nameStrait, nameBaseline)
		for _, payload := range payloads {
			add(packetRateName(payload), func(r *Rig, p *setting) (metrics, error) {
				return r.packetRate(p, payload, l.trial)
			}, gateways...)
		}
		add(testFirstPacket, func(r *Rig, p *setting) (metrics, error) {
			return r.firstPackets(p, 3*l.roundTrips) // a difference of a microsecond among hundreds needs many
		}, nameP, nameStrait, nameBaseline, namePlain)
		add(testNodes, fromNodes(l), nameStrait, nameBaseline, nameStraitManyNodes)
		add(testResident, resident, nameStrait, nameBaseline, nameStraitManyNodes)
		add(testReload, duringReload(l), nameStraitManyNodes)
	case Wire:
		add(testFixedRate, func(r *Rig, p *setting) (metrics, error) {
			return r.fixedRate(p, traffic.Blast{Sizes: []int{64}, Rate: 20_000, Duration: l.datagrams, Burst: podBurst})
		}, gateways...)
	}
	if mode == SameHost {
		return all
	}
	add(testRoundTrip, func(r *Rig, p *setting) (metrics, error) { return r.roundTrips(p, 1, l.roundTrips) }, gateways...)
	add(testRoundTrips, func(r *Rig, p *setting) (metrics, error) { return r.roundTrips(p, 16, l.roundTrips) }, gateways...)
	add(testHop, func(r *Rig, p *setting) (metrics, error) {
		return r.hop(p, p.a.gw, p.b.gw, p.b.wan[0], l.datagrams)
	}, namePlain)
	add(testHopForwarded, func(r *Rig, p *setting) (metrics, error) {
		return r.hop(p, p.a.node, p.b.gw, p.b.wan[0], l.datagrams)
	}, namePlain)
	add(testAEAD, func(*Rig, *setting) (metrics, error) { return aead(l.streams / 3) }, namePlain)
	return all
}
