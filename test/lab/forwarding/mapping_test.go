//go:build lab || nightly

package forwarding

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"strait.dev/strait/test/lab"
)

// Node A represents a machine outside of the pod network: pods of B reach it at an external
// address, through a network stack in gateway A and an ordinary socket.
func TestMappedTargetsAreReached(t *testing.T) {
	t.Parallel()
	external := lab.Addrs("10.70.1.9", "fd00:70::1:9")
	top := lab.Build(t, lab.Options{Configure: func(s *lab.Site, c *lab.GatewayConfig) {
		if s.Name == "a" {
			c.Mappings = []lab.Mapping{{External: external[0], Target: s.Bridge4}, {External: external[1], Target: s.Bridge6}}
		}
	}})
	a, b := top.A, top.B
	for f, target := range []netip.Addr{a.Bridge4, a.Bridge6} {
		from := []netip.Addr{a.GW4, a.GW6}[f]
		called := b.Sees(external[f])
		t.Run([]string{"IPv4", "IPv6"}[f], func(t *testing.T) {
			t.Run("TCP", func(t *testing.T) {
				expectMappedTCP(t, top, netip.AddrPortFrom(target, 7000), netip.AddrPortFrom(called, 7000), from)
			})
			t.Run("UDP", func(t *testing.T) {
				go lab.ServeEcho(a.Node.ListenUDP(t, netip.AddrPortFrom(target, 7001)))
				c := b.Pod.Dial(t, "udp", netip.AddrPortFrom(called, 7001))
				for _, size := range []int{0, 1, 1000, 9000} {
					if err := lab.EchoAfterErrors(t, c, make([]byte, size), nil, 7); err != nil {
						t.Errorf("%d bytes: %v", size, err)
					}
				}
			})
			t.Run("answers from another port", func(t *testing.T) {
				third := []netip.Addr{a.Pod4, a.Pod6}[f]
				expectTransfer(t, top, netip.AddrPortFrom(target, 69), netip.AddrPortFrom(called, 69), netip.AddrPortFrom(third, 69))
			})
			t.Run("closed UDP port", func(t *testing.T) {
				c := b.Pod.Dial(t, "udp", netip.AddrPortFrom(called, 7003))
				lab.Eventually(t, "port unreachable", func() bool {
					_, _ = c.Write([]byte("?"))
					_ = c.SetReadDeadline(time.Now().Add(time.Second))
					_, err := c.Read(make([]byte, 1))
					return errors.Is(err, syscall.ECONNREFUSED)
				})
			})
			t.Run("ping", func(t *testing.T) { lab.WaitForPing(t, b.Pod, called) })
			t.Run("refused", func(t *testing.T) {
				err := b.Pod.In(func() error {
					_, err := net.Dial("tcp", netip.AddrPortFrom(called, 7002).String())
					return err
				})
				if !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("a closed port: %v", err)
				}
			})
		})
	}
	opened := a.Gateway.Metric(t, "strait_mapping_connections_total", `protocol="tcp"`)
	refused := a.Gateway.Metric(t, "strait_mapping_refused_total", `protocol="tcp"`, `reason="target_refused"`)
	foreign := a.Gateway.Metric(t, "strait_mapping_refused_total", `protocol="udp"`, `reason="foreign_source"`)
	if foreign != 2 {
		t.Errorf("%v datagrams of a third host in the metrics, want 2", foreign)
	}
	if opened != 2 || refused != 2 {
		t.Errorf("%v connections and %v refused in the metrics, want 2 and 2", opened, refused)
	}
}

// expectTransfer reads a file as TFTP does (RFC 1350): the server answers from a port that it chooses for the transfer, and
// the client acknowledges to that port. A third host sends a block too, from the server's port.
func expectTransfer(t *testing.T, top *lab.Topology, target, called, third netip.AddrPort) {
	t.Helper()
	const blocks = 5
	server := top.A.Node.ListenUDP(t, target)
	worker := top.A.Node.ListenUDP(t, netip.AddrPortFrom(target.Addr(), 0))
	forger := top.A.Pod.ListenUDP(t, third)
	block := func(n byte) []byte { return append([]byte{0, 3, 0, n}, bytes.Repeat([]byte{n}, 512)...) }
	served := make(chan error, 1)
	go func() { served <- serveTransfer(server, worker, forger, block, blocks) }()

	client := top.B.Pod.ListenUDP(t, netip.AddrPortFrom([]netip.Addr{top.B.Pod4, top.B.Pod6}[called.Addr().BitLen()/128], 0))
	if err := client.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.WriteToUDPAddrPort([]byte("\x00\x01file\x00octet\x00"), called); err != nil {
		t.Fatal(err)
	}
	transfer := netip.AddrPortFrom(called.Addr(), worker.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	buffer := make([]byte, 1000)
	for n := byte(1); n <= blocks; n++ {
		length, from, err := client.ReadFromUDPAddrPort(buffer)
		if err != nil || from != transfer || !bytes.Equal(buffer[:length], block(n)) {
			t.Fatalf("block %d: %d bytes from %v, %v; want them from %v", n, length, from, err, transfer)
		}
		if _, err := client.WriteToUDPAddrPort([]byte{0, 4, 0, n}, transfer); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// serveTransfer answers one request to server from worker.
func serveTransfer(server, worker, forger *net.UDPConn, block func(byte) []byte, blocks byte) error {
	deadline := time.Now().Add(10 * time.Second)
	_, _ = server.SetReadDeadline(deadline), worker.SetReadDeadline(deadline)
	buffer := make([]byte, 1000)
	_, client, err := server.ReadFromUDPAddrPort(buffer)
	if err != nil {
		return err
	}
	if _, err := forger.WriteToUDPAddrPort(block(0), client); err != nil {
		return err
	}
	for n := byte(1); n <= blocks; n++ {
		if _, err := worker.WriteToUDPAddrPort(block(n), client); err != nil {
			return err
		}
		length, from, err := worker.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return fmt.Errorf("acknowledgement %d: %w", n, err)
		}
		if from != client || !bytes.Equal(buffer[:length], []byte{0, 4, 0, n}) {
			return fmt.Errorf("acknowledgement %d: % x from %v, want it from %v", n, buffer[:length], from, client)
		}
	}
	return nil
}

// expectMappedTCP sends a large amount, closes its half, and reads what the target sends
// after that.
func expectMappedTCP(t *testing.T, top *lab.Topology, target, called netip.AddrPort, from netip.Addr) {
	t.Helper()
	listener := top.A.Node.ListenTCP(t, target)
	seen := make(chan netip.Addr, 1)
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return // closed: the test has failed
		}
		defer c.Close()
		seen <- c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		sum := sha256.New()
		_, _ = io.Copy(sum, c) // until the caller has closed its half
		_, _ = c.Write(sum.Sum(nil))
	}()
	payload := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(payload)
	c := top.B.Pod.Dial(t, "tcp", called).(*net.TCPConn)
	if _, err := c.Write(payload); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if want := sha256.Sum256(payload); err != nil || !bytes.Equal(got, want[:]) {
		t.Errorf("the target's digest is %x of %d bytes, want %x: %v", got, len(payload), want, err)
	}
	if at := <-seen; at != from {
		t.Errorf("the target sees %v, want the gateway at %v", at, from)
	}
}
