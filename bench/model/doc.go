// Package model predicts what gateways carry with more cores, links and gateways
// than a machine has, from what one run of the ladder measured on it:
//
//	Run ► costs (CPU time per packet of each stage of a link) ► rows (rates) ► Text
//
// It computes from figures that it is given, and asks nothing of the machine.
//
// # The model
//
// A packet passes six stages in two gateways. Four of them are one goroutine of a
// link each, and therefore never faster than one core; cryptography runs on all:
//
//	egress   overlay reader:      receive(mode) + egress journey + copy      one goroutine
//	         encryption:          seal                                       all cores
//	         WireGuard sender:    send(wire)                                 one goroutine
//	ingress  WireGuard receiver:  receive(wire) + copy                       one goroutine
//	         decryption:          open                                       all cores
//	         overlay writer:      ingress journey + send(mode)               one goroutine
//
// The parts are measured one by one. What two gateways cost together more than all
// parts are WireGuard's queues, buffers and wake-ups: hand-offs. They are two gateways
// less the generator (the throughput tests' "gateways" less "udp") less the parts.
// No test says which stage they fall on. CPU profiles of two gateways, summed by
// goroutine, do: cryptography takes no more than alone. Readers and receivers, which
// take cold buffers and wake the others, have two thirds of the hand-offs or more, so
// each gets a third; senders and writers get a sixth.
//
// A row is one direction, through gateways at both ends that have as many cores:
//
//	rate = gateways × min(lanes / slowest serial stage,
//	                      cores × efficiency / CPU time of the dearer side,
//	                      line rate / bytes of a WireGuard packet on Ethernet)
//
// Efficiency is what the machine of the run reached of its cores: the median, over
// all loads, of the rate that its two gateways carried in one process, generator
// included, as a part of what the same formula says for it.
package model
