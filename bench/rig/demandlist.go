package rig

// tcpTests are the tests of the TCP targets, of which the worst counts.
var tcpTests = []string{tcpName(1, forth), tcpName(1, back), tcpName(4, forth), tcpName(4, back)}

// demands are the performance targets of `strait gateway` with default settings.
func demands() []demand {
	const timesP, timesP1 = " × P", " × P1"
	sameHost := tcpTests[:2]
	sizes := []string{packetRateName(payloads[0]), packetRateName(payloads[1])}
	return []demand{
		{"nogro TCP, CPU per GB", []limit{atMost(0.25, timesP, against(nameP, NoGRO, unitCPU, tcpTests...))}},
		{"nogro TCP throughput, 1 and 4 streams, both ways", []limit{atLeast(3.5, timesP, against(nameP, NoGRO, unitThroughput, tcpTests...))}},
		{"wire TCP, CPU per GB", []limit{
			atMost(0.75, timesP, against(nameP, Wire, unitCPU, tcpTests...)),
			atMost(1.0, timesP1, against(nameP1, Wire, unitCPU, tcpTests...)),
		}},
		{"wire TCP throughput, 1 and 4 streams, both ways", []limit{
			atLeast(1.25, timesP, against(nameP, Wire, unitThroughput, tcpTests...)),
			atLeast(1.0, timesP1, against(nameP1, Wire, unitThroughput, tcpTests...)),
		}},
		{"same host TCP, CPU per GB", []limit{atMost(0.90, timesP, against(nameP, SameHost, unitCPU, sameHost...))}},
		{"UDP 64 B at 20 kpps, CPU per packet", []limit{atMost(0.50, timesP, against(nameP, Wire, unitPacketCPU, testFixedRate))}},
		{"UDP packets per second at < 1 % loss, 64 B and 1400 B", []limit{atLeast(1.6, timesP, against(nameP, NoGRO, unitPacketRate, sizes...))}},
		{"TCP round trip p50 / p99", []limit{
			atMost(0.60, timesP, against(nameP, NoGRO, unitP50, testRoundTrip)),
			atMost(0.65, timesP, against(nameP, NoGRO, unitP99, testRoundTrip)),
		}},
		{"16 parallel request/response, transactions/s", []limit{atLeast(1.6, timesP, against(nameP, Wire, unitRate, testRoundTrips))}},
		{"CPU per GB against the same run's floor (overlay only + 2 UDP crossings + AEAD), nogro and wire", []limit{atMost(1.35, "", aboveFloor)}},
		{"first packet of a new flow over a known flow, less what the kernels of a plain route need", []limit{{
			"≤ 1 µs", true, 1000, excess(1, figure{testFirstPacket, NoGRO, nameStrait, unitExtra}, figure{testFirstPacket, NoGRO, namePlain, unitExtra}), "%.0f ns",
		}}},
		{"5 000 nodes with 100 000 routes, traffic over 256 nodes: CPU per GB", []limit{atMost(1.10, " × 1 node", ratios(ratio{
			figure{testNodes, NoGRO, nameStraitManyNodes, unitCPU}, figure{testNodes, NoGRO, nameStrait, unitCPU},
		}))}},
		{"5 000 nodes with 100 000 routes: resident memory at rest over 1 node", []limit{{
			"≤ 64 MiB", true, 64, excess(1<<20, figure{testResident, NoGRO, nameStraitManyNodes, unitResident}, figure{testResident, NoGRO, nameStrait, unitResident}), "%.1f MiB",
		}}},
		{"5 000 nodes: longest round trip while the configuration is read again", []limit{{ // a lost segment would be retransmitted after 200 ms
			"≤ 50 ms", true, 50, excess(1e6, figure{testReload, NoGRO, nameStraitManyNodes, unitLongest}), "%.1f ms",
		}}},
		{"1 node: peak memory of one gateway in the whole run", []limit{{
			"≤ 48 MiB", true, 48, excess(1<<20, figure{testMemory, "", nameStrait, unitMemory}), "%.0f MiB",
		}}},
		{"IPv6 inside, IPv6 outside: throughput", []limit{atLeast(0.90, " × IPv4", ratios(ipv6Pairs(unitThroughput)...))}},
		{"IPv6 inside, IPv6 outside: CPU per GB", []limit{atMost(1.10, " × IPv4", ratios(ipv6Pairs(unitCPU)...))}},
	}
}

// floor computes the minimum CPU cost of the path in one mode from its parts: the
// kernels' overlay links and routes, two crossings of sockets instead of two forwarded
// hops, and the cipher.
func floor(all figures, mode Mode) (cpu float64, ok bool) {
	overlay, a := all(figure{tcpName(1, forth), mode, nameOverlay, unitCPU})
	hop, b := all(figure{testHop, mode, namePlain, unitCPU})
	forwarded, c := all(figure{testHopForwarded, mode, namePlain, unitCPU})
	cipher, d := all(figure{testAEAD, mode, namePlain, unitCPU})
	// The overlay's figure already contains the cable of each hop. The cost of a cable is
	// the difference of one more cable and forward with the same datagrams.
	cable := forwarded - hop
	return overlay + 2*(hop-cable) + cipher, a && b && c && d
}

// aboveFloor is the CPU cost of strait relative to the floor.
func aboveFloor(all figures) (values []float64) {
	for _, mode := range []Mode{NoGRO, Wire} {
		cost, measured := all(figure{tcpName(1, forth), mode, nameStrait, unitCPU})
		least, ok := floor(all, mode)
		if measured && ok && least > 0 {
			values = append(values, cost/least)
		}
	}
	return values
}

// excess returns the figure less others, in units of scale. It is none if one was not measured.
func excess(scale float64, f figure, less ...figure) func(figures) []float64 {
	return func(all figures) []float64 {
		value, ok := all(f)
		for _, other := range less {
			part, measured := all(other)
			value, ok = value-part, ok && measured
		}
		if !ok {
			return nil
		}
		return []float64{value / scale}
	}
}

// ipv6Pairs compares IPv6 inside and outside with IPv4.
func ipv6Pairs(unit string) []ratio {
	v4 := figure{tcpName(1, forth), NoGRO, nameStrait, unit}
	inside, outside := v4, v4
	inside.test, outside.subject = testTCP6, nameStraitOver6
	return []ratio{{inside, v4}, {outside, v4}}
}
