// Package flows measures outages of traffic between two network namespaces: many flows of
// numbered messages, over UDP and TCP, IPv4 and IPv6, in both directions, and which
// namespaces in between they pass.
//
//	End ──message every period──► ... ──► End
//	         │                     │
//	      number, time sent     the outage ends: time since the first message that was not
//	                            delivered was sent
//
// Both ends are in this process, so that all times are of one clock.
package flows
