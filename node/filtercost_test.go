//go:build nightly

package node

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/netns"
)

// What the rules for packets from gateways cost a node, measured: CPU time per gigabyte from a
// gateway to a pod, with these rules and without them, in turns. One packet at a time is the worst
// case: a network card or a gateway on the same machine hands over super-packets, for each of
// which the rules run once.
func TestTheCostOfTheRulesMeasured(t *testing.T) {
	const pairs = 160
	for _, super := range []bool{true, false} {
		t.Run(fmt.Sprintf("super-packets %t", super), func(t *testing.T) {
			w := newWorld(t, Support{})
			d := w.desired()
			w.apply(t, d)
			if !super {
				for _, device := range []string{"eth0", "overlay"} {
					w.gateway.Run(t, "ethtool", "-K", device, "tso", "off", "gso", "off")
				}
			}
			size := int64(1 << 28)
			if !super {
				size /= 4
			}
			// Both states are prepared alike, so that only the rules differ.
			cost := func(command string) float64 {
				w.apply(t, d)
				w.node.NFT(t, command)
				runtime.GC()
				before := cpuTime(t)
				w.send(t, size)
				return (cpuTime(t) - before) / (float64(size) / 1e9)
			}
			const rules, noRules = "list chains", "flush chain inet strait input\nflush chain inet strait ingress"
			cost(rules) // fills caches
			var with, without, ratios []float64
			for i := range pairs {
				if i%2 == 0 { // the order alternates: a drift of the machine favours neither
					with = append(with, cost(rules))
					without = append(without, cost(noRules))
				} else {
					without = append(without, cost(noRules))
					with = append(with, cost(rules))
				}
				ratios = append(ratios, with[i]/without[i])
			}
			for _, s := range [][]float64{with, without, ratios} {
				slices.Sort(s)
			}
			t.Logf("CPU seconds per GB of gateway, node and pod: %.3f with the rules, %.3f without; ratio of a pair %.3f (%.3f to %.3f; quartiles of %d)",
				with[pairs/2], without[pairs/2], ratios[pairs/2], ratios[pairs/4], ratios[3*pairs/4], pairs)
		})
	}
}

// cpuTime is the CPU time of this process in seconds: of the sender, the receiver, and the kernel,
// which forwards packets in the context of the sender.
func cpuTime(t *testing.T) float64 {
	t.Helper()
	var u unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// send sends bytes from the far pod to the pod by TCP.
func (w *world) send(t *testing.T, size int64) {
	t.Helper()
	l := listenIn(t, w.pod, "10.0.1.5:5001")
	defer l.Close()
	received := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, err = io.Copy(io.Discard, conn)
			conn.Close()
		}
		received <- err
	}()
	var conn net.Conn
	must(t, w.gateway.In(func() (err error) {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("10.71.2.9")}}
		conn, err = dialer.Dial("tcp", l.Addr().String())
		return err
	}))
	buffer := make([]byte, 1<<20)
	for sent := int64(0); sent < size; sent += int64(len(buffer)) {
		_, err := conn.Write(buffer)
		must(t, err)
	}
	must(t, conn.Close())
	must(t, <-received)
}

func listenIn(t *testing.T, n *netns.Namespace, address string) (l net.Listener) {
	t.Helper()
	must(t, n.In(func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	}))
	return l
}
