// Package trace thinks a packet through, from a pod of one cluster to an address of
// another and back: where each node's kernel sends it, what each gateway does with it,
// whether somebody is there. No packet is sent.
//
// Nothing of it is guessed: kernels and gateways are asked themselves, with what is in
// force there, by running strait in their pods. What cannot be asked is said to be
// unknown, and how to look further. NetworkPolicies and what else a network plugin does
// are not looked at.
//
// The files follow the packet: send.go to the tunnel, arrive.go from there on.
package trace
