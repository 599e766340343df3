// Package rig measures gateways on the real kernel: each subject gets its own topology of
// network namespaces, with real gateways in it. It needs root.
//
//	podA ───── nodeA ───────── gwA ══════════ gwB ───────── nodeB ───── podB
//	10.0.1.5   10.0.1.1   192.168.1.1       192.168.2.1   10.0.2.1   10.0.2.9
//	           192.168.1.10     203.0.113.1 ═ .2       192.168.2.10
//
// Both clusters use 10.0.0.0/16. A maps B's pods to 10.71.0.0/16, B maps A's to
// 10.72.0.0/16. A subject is what runs in gwA and gwB: strait, the peer it is compared
// with, a limit (less than a gateway), or a custom command.
//
// The files, in the order of a measurement:
//
//	run ► plan, optionaltests: tests, subjects, repetitions, interleaved
//	    ► topology, offload: the namespaces and the mode
//	    ► strait, peer, limits, customsubject: the gateways
//	    ► measure, search, flows: traffic between the ends (package traffic), CPU time by
//	      control group and processors
//	    ► demands: the required figures ► report
package rig
