// Package model predicts the throughput of gateways with more cores, links and gateways
// than a machine has, from one run of the ladder measured on it:
//
//	Run ► costs (CPU time per packet of each stage of a link) ► rows (rates) ► Text
//
// It computes from the figures in the run and queries nothing on the machine.
//
// # The model
//
// A packet passes six stages in two gateways. Four of them are one goroutine per link, and
// therefore limited to one core; cryptography runs on all:
//
//	egress   overlay reader:      receive(mode) + egress + copy              one goroutine
//	         encryption:          seal                                       all cores
//	         WireGuard sender:    send(wire)                                 one goroutine
//	ingress  WireGuard receiver:  receive(wire) + copy                       one goroutine
//	         decryption:          open                                       all cores
//	         overlay writer:      ingress + send(mode)                       one goroutine
//
// The parts are measured separately. The cost of two gateways beyond the sum of the parts
// is WireGuard's queues, buffers and wake-ups: the hand-offs. They are the cost of two
// gateways minus the generator (the throughput tests' "gateways" minus "udp") minus the
// parts. No test shows to which stage they belong. CPU profiles of two gateways, summed by
// goroutine, do: cryptography takes no more than when measured separately. Readers and
// receivers, which read cold buffers and wake the others, have two thirds of the hand-offs
// or more, so each gets a third; senders and writers get a sixth.
//
// A row is one direction, through gateways at both ends with equally many cores:
//
//	rate = gateways × min(lanes / slowest serial stage,
//	                      cores × efficiency / CPU time of the more expensive side,
//	                      line rate / bytes of a WireGuard packet on Ethernet)
//
// Efficiency is the fraction of its cores that the machine of the run reached: the median,
// over all loads, of the measured rate of its two gateways in one process, generator
// included, relative to the rate that the same formula predicts for it.
package model
