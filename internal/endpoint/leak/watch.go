//go:build linux

package leak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	snap   = 256 << 10 // of a packet, bytes: more than the largest
	buffer = 32 << 20  // of waiting packets, bytes
	turn   = 200_000   // µs between checks of ctx
)

// Watch captures all IP packets on all interfaces in this process's network namespace until
// ctx ends. It calls ready when the capture has started. It needs CAP_NET_RAW.
func Watch(ctx context.Context, o Order, ready func()) (*Report, error) {
	m := &matcher{Order: o, Report: Report{Underlay: []string{}, Leaks: []Leak{}}}
	names, underlay, err := interfaces(o.Node)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	for index := range underlay {
		m.Underlay = append(m.Underlay, names[index])
	}
	slices.Sort(m.Underlay)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(network(unix.ETH_P_ALL)))
	if err != nil {
		return nil, fmt.Errorf("watch: open a packet socket: %w; it needs NET_RAW", err)
	}
	defer unix.Close(fd)
	// With NET_ADMIN the limit does not apply.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: turn}); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	ready()
	b := make([]byte, snap)
	for ctx.Err() == nil {
		n, from, err := unix.Recvfrom(fd, b, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENETDOWN) {
			continue // no packet for a while, or an interface was removed
		}
		if err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
		if at, ok := from.(*unix.SockaddrLinklayer); ok && at.Hatype != unix.ARPHRD_LOOPBACK {
			name := names[at.Ifindex]
			if name == "" { // added after the start
				if name = fmt.Sprintf("interface %d", at.Ifindex); len(names) < 1<<16 {
					if i, err := net.InterfaceByIndex(at.Ifindex); err == nil {
						name = i.Name
					}
					names[at.Ifindex] = name
				}
			}
			m.see(name, underlay[at.Ifindex], b[:n])
		}
	}
	if stats, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		m.Missed = int(stats.Drops)
	}
	return &m.Report, nil
}

// interfaces returns the names of all interfaces, and which have one of these addresses.
func interfaces(node []netip.Addr) (names map[int]string, underlay map[int]bool, err error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, nil, err
	}
	names, underlay = map[int]string{}, map[int]bool{}
	for _, i := range all {
		names[i.Index] = i.Name
		addresses, err := i.Addrs()
		if err != nil {
			continue // it was removed
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && slices.Contains(node, p.Addr()) {
				underlay[i.Index] = true
			}
		}
	}
	return names, underlay, nil
}
