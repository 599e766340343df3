//go:build linux

// Package userspace implements Geneve for kernels that do not support it: this process
// forwards frames between TAP devices and UDP.
//
//	node's kernel ──► TAP ──read──► Geneve header in front ──sendmmsg──► gateway:6091
//	node's kernel ◄── TAP ◄─write── source, VNI, header? ◄──recvmmsg──── gateway
//
// Each device serves one gateway and has a goroutine, which reads up to 64 waiting frames
// and sends them together. Each address family has another goroutine, which receives.
// Neither allocates, logs or takes a lock per frame.
//
// Devices are persistent: they and their configuration stay when the process ends. While no
// process reads them, their carrier is off and packets sent to them are lost.
//
// The package is separate from package tun, so that the node helper contains neither
// WireGuard nor a network stack.
package userspace
