package tun

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"
)

// BenchmarkForward copies 64 MiB from a port of gateway a to a pod behind gateway b, or back. Neither
// has a node. The CPU time is that of both gateways, the client and the server.
func BenchmarkForward(b *testing.B) {
	const size = 64 << 20
	for _, way := range []string{"to target", "to caller"} {
		b.Run(way, func(b *testing.B) {
			from, to := forwarded(b)
			if way == "to caller" {
				from, to = to, from
			}
			chunk := make([]byte, 1<<20)
			b.SetBytes(size)
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				go func() {
					for range size / len(chunk) {
						_, _ = from.Write(chunk)
					}
				}()
				if _, err := io.CopyN(io.Discard, to, size); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpuTime(b)-before)*1e9/float64(b.N*size), "CPU-s/GB")
		})
	}
}

// forwarded returns both ends of a connection through a forward and a proxy.
func forwarded(b *testing.B) (client, server net.Conn) {
	b.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	_, _, at := newForward(b, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
	})
	if client, err = net.Dial("tcp4", at); err != nil {
		b.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// cpuTime returns the CPU time of this process in seconds.
func cpuTime(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
