// Package userspace is Geneve for kernels that have none: this process carries frames
// between TAP devices and UDP.
//
//	node's kernel ──► TAP ──read──► Geneve header in front ──sendmmsg──► gateway:6091
//	node's kernel ◄── TAP ◄─write── source, VNI, header? ◄──recvmmsg──── gateway
//
// Each device is for one gateway and has a goroutine, which reads what waits, up to 64
// frames, and sends them together. Each address family has another, for what arrives.
// Neither allocates, logs or locks anything for a frame.
//
// Devices are persistent: they stay, with all that is on them, when the process ends.
// But while nobody reads them their carrier is off and what is sent to them is lost.
//
// It stands beside package tun and not in it, so that the node's helper contains neither
// WireGuard nor a network stack of its own.
package userspace
