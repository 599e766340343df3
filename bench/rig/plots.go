package rig

import (
	"strait.dev/strait/bench/report"
	"strait.dev/strait/bench/result"
)

// reportPlot is a figure of the report and the name of its file.
type reportPlot struct {
	file   string
	figure report.Figure
}

// plots are the figures of the report, in its order. report.SVG leaves out the bars that
// a run did not measure.
func plots() []reportPlot {
	stream, short, full := tcpName(1, forth), packetRateName(payloads[0]), packetRateName(payloads[1])
	return []reportPlot{
		{"performance-throughput.svg", report.Figure{
			Title: "Throughput of one TCP stream", Note: "bits per second of payload; more is better",
			Bars: byMode(stream, unitThroughput),
		}},
		{"performance-cpu.svg", report.Figure{
			Title: "CPU time of one TCP stream, whole path", Note: "CPU-seconds per 10⁹ bytes of payload; less is better",
			Bars: byMode(stream, unitCPU),
		}},
		{"performance-packets.svg", report.Figure{
			Title: "UDP datagrams with less than 1 % loss", Note: "datagrams per second, mode nogro; more is better",
			Bars: append(withPeer("64 bytes · ", short, NoGRO, unitPacketRate), withPeer("1372 bytes · ", full, NoGRO, unitPacketRate)...),
		}},
		{"performance-latency.svg", report.Figure{
			Title: "TCP round trip of 64 bytes, one connection", Note: "mode nogro; less is better",
			Bars: append(withPeer("median · ", testRoundTrip, NoGRO, unitP50), withPeer("99th percentile · ", testRoundTrip, NoGRO, unitP99)...),
		}},
		{"performance-memory.svg", report.Figure{
			Title: "Memory of one gateway, peak of the whole run", Note: "resident bytes; less is better",
			Bars: []report.Bar{
				{Label: "wireguard-go alone", Key: result.Key{Test: testMemory, Subject: nameWireGuardGo, Unit: unitMemory}},
				{Label: "strait, 1 node", Key: result.Key{Test: testMemory, Subject: nameStrait, Unit: unitMemory}, Own: true},
				{Label: "strait, 5 000 nodes, 100 000 routes", Key: result.Key{Test: testMemory, Subject: nameStraitManyNodes, Unit: unitMemory}, Own: true},
			},
		}},
	}
}

// byMode compares the gateways in each mode, with a plain route as the limit of the machine.
func byMode(test, unit string) (bars []report.Bar) {
	for _, mode := range []Mode{NoGRO, Wire, SameHost} {
		bars = append(bars, withPeer(string(mode)+" · ", test, mode, unit)...)
	}
	return append(bars, bar("no gateway: plain route · nogro", test, NoGRO, namePlain, unit))
}

func withPeer(prefix, test string, mode Mode, unit string) []report.Bar {
	return []report.Bar{
		bar(prefix+"peer", test, mode, nameP, unit),
		bar(prefix+"peer, one core", test, mode, nameP1, unit),
		bar(prefix+"strait", test, mode, nameStrait, unit),
	}
}

func bar(label, test string, mode Mode, subject, unit string) report.Bar {
	return report.Bar{Label: label, Key: result.Key{Test: test, Mode: string(mode), Subject: subject, Unit: unit}, Own: subject == nameStrait}
}
