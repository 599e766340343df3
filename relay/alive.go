package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"strait.dev/strait/packet"
)

// probePort is probed if no port is known on which the target answers: the echo service, which few hosts run, so most
// targets answer with a reset.
const probePort = 7

// alive reports whether a target answers before ctx ends: to a ping, if the kernel lets unprivileged processes send one
// (net.ipv4.ping_group_range), or to a TCP SYN, also with a reset. Both are tried at once, because firewalls drop the one
// or the other.
func alive(ctx context.Context, target netip.Addr, port uint16) bool {
	if port == 0 {
		port = probePort
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan bool, 2)
	go func() { answers <- answersPing(ctx, target) }()
	go func() { answers <- answersTCP(ctx, netip.AddrPortFrom(target, port)) }()
	if <-answers {
		cancel()
		<-answers
		return true
	}
	return <-answers
}

func answersTCP(ctx context.Context, at netip.AddrPort) bool {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", at.String())
	if err == nil {
		c.Close()
		return true
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// answersPing sends one echo request. The kernel sets its identifier and checksum, and delivers only the replies to it.
func answersPing(ctx context.Context, target netip.Addr) bool {
	c, err := dialPing(target)
	if err != nil {
		return false // not permitted, or no route
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	message := make([]byte, packet.ICMPHeaderLen)
	reply := byte(header.ICMPv4EchoReply)
	message[0] = byte(header.ICMPv4Echo)
	if target.Is6() {
		reply = byte(header.ICMPv6EchoReply)
		message[0] = byte(header.ICMPv6EchoRequest)
	}
	if _, err := c.Write(message); err != nil {
		return false
	}
	for b := make([]byte, packet.ICMPHeaderLen); ; {
		n, err := c.Read(b)
		if err != nil {
			return false
		}
		if n > 0 && b[0] == reply {
			return true
		}
	}
}

// dialPing opens an ICMP socket that needs no capability.
func dialPing(target netip.Addr) (net.Conn, error) {
	family, protocol := syscall.AF_INET, syscall.IPPROTO_ICMP
	var at syscall.Sockaddr
	if target.Is6() {
		family, protocol = syscall.AF_INET6, syscall.IPPROTO_ICMPV6
		at = &syscall.SockaddrInet6{Addr: target.As16()}
	} else {
		at = &syscall.SockaddrInet4{Addr: target.As4()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "ping")
	defer f.Close() // net.FileConn duplicates the descriptor
	if err := syscall.Connect(fd, at); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}
