// Package rig measures gateways on the real kernel: for each subject a picture of its
// own, in network namespaces, with real gateways in it. It needs root.
//
//	podA ───── nodeA ───────── gwA ══════════ gwB ───────── nodeB ───── podB
//	10.0.1.5   10.0.1.1   192.168.1.1       192.168.2.1   10.0.2.1   10.0.2.9
//	           192.168.1.10     203.0.113.1 ═ .2       192.168.2.10
//
// Both clusters use 10.0.0.0/16. A sees B's pods as 10.71.0.0/16, B sees A's as
// 10.72.0.0/16. A subject is whatever stands in gwA and gwB: strait, the peer it is
// measured against, less than a gateway (the limits), or what somebody plugs in.
//
// The way of a measurement through the files:
//
//	run ► plan, optional: what is measured, with whom, how often, interleaved
//	    ► topology, wiring, offload: the picture and its mode
//	    ► strait, peer, limits, custom: the gateways
//	    ► measure, search, flows: traffic by the ends (package traffic), CPU by cgroup and
//	      processors
//	    ► demands: what the figures have to be ► report
package rig
