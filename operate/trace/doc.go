// Package trace follows a hypothetical packet from a pod of one cluster to an address of
// another and back: where the kernel of each node routes it, what each gateway does with
// it, and which pod receives it. No packet is sent.
//
// Kernels and gateways are queried with their current state, by running strait in their
// pods. What cannot be queried is reported as unknown, with a hint how to continue.
// NetworkPolicies and other features of network plugins are not evaluated.
//
// The files follow the packet: send.go up to the tunnel, arrive.go from there on. service.go
// resolves names of imported Services to endpoints.
package trace
