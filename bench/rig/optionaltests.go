package rig

import (
	"fmt"
	"slices"

	"strait.dev/strait/bench/measure"
)

// Optional tests answer additional questions about gateways. The table of demands does not
// need them.

// frameSizes are the packet sizes of the search for drop rates: bytes of IP packets, in
// turn.
var frameSizes = []struct {
	name  string
	sizes []int
}{
	{"64", []int{64}},
	{"1400", []int{1400}},
	{"imix", measure.IMIX},
}

// payloadsOf returns the payloads of UDP over IPv4 for packet sizes.
func payloadsOf(sizes []int) []int {
	payloads := make([]int, len(sizes))
	for i, size := range sizes {
		payloads[i] = size - 28 // IPv4 and UDP headers
	}
	return payloads
}

// optionalTests returns the tests of a mode that run only if all tests are requested.
func optionalTests(mode Mode, l lengths, custom []string) (all []test) {
	gateways := gatewayNames(mode, custom)
	add := func(name string, measure func(*Rig, *setting) (metrics, error), subjects ...string) {
		all = append(all, test{name: name, mode: mode, subjects: subjects, measure: measure, optional: true})
	}
	beside := func(limit string) []string { return append(slices.Clone(gateways), limit) }
	if mode == SameHost {
		return nil
	}
	add(tcpName(32, forth), tcp(32, forth, 0, l), gateways...)
	if mode == Wire {
		return all
	}
	add(tcpName(32, back), tcp(32, back, 0, l), gateways...)
	for _, f := range frameSizes {
		add(fmt.Sprintf("udp/size=%s/drop-rates", f.name), func(r *Rig, p *setting) (metrics, error) {
			// Long trials: packets that queues deliver after the end still count as
			// carried.
			return r.dropRates(p, payloadsOf(f.sizes), 2*l.trial, l.datagrams)
		}, beside(nameWireGuardGo)...)
	}
	for _, flows := range []int{1, 10_000} {
		add(fmt.Sprintf("udp/payload=64/rate=20k/flows=%d", flows), func(r *Rig, p *setting) (metrics, error) {
			return r.manyFlows(p, flows, 64, 20_000, l.datagrams)
		}, gateways...)
	}
	for _, rate := range []int{1, 10} {
		add(fmt.Sprintf("open-loop/rate=%dk", rate), func(r *Rig, p *setting) (metrics, error) {
			return r.requests(p, float64(rate)*1000, l.roundTrips)
		}, beside(namePlain)...)
	}
	add("new-flows", func(r *Rig, p *setting) (metrics, error) { return r.newFlows(p, l.trial) }, beside(namePlain)...)
	add("new-connections/parallel=16", func(r *Rig, p *setting) (metrics, error) {
		return r.newConnections(p, 16, l.roundTrips)
	}, beside(namePlain)...)
	add("memory/idle-peerings", perPeering, nameStraitManyPeers)
	return all
}

func allTests(l lengths, custom []string, optional bool) (all []test) {
	for _, mode := range modes {
		all = append(all, usualTests(mode, l, custom)...)
		if optional {
			all = append(all, optionalTests(mode, l, custom)...)
		}
	}
	return all
}
