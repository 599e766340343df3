// Package ports gives tests port numbers to write into configurations.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// first and end are below the range that the kernel takes ports from by itself (32768 on,
// unless net.ipv4.ip_local_port_range says otherwise): a port asked of the kernel and given
// back may be that of somebody's connection a moment later.
const first, end = 20000, 30000

// Free is n ports of this network namespace that nobody uses, on UDP and TCP and any
// address. Until the test ends no other test is given them, in this process or another.
func Free(t testing.TB, n int) []uint16 {
	t.Helper()
	var free []uint16
	for _, i := range rand.Perm(end - first) {
		if len(free) == n {
			return free
		}
		if port := first + i; claim(t, port) {
			free = append(free, uint16(port))
		}
	}
	t.Fatalf("there are not %d free ports from %d to %d", n, first, end-1)
	return nil
}

// Address is a loopback address with such a port.
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Free(t, 1)[0])
}

// claim takes a port's name, which one socket at a time can have (unix(7), abstract), and
// looks whether the port is free.
func claim(t testing.TB, port int) bool {
	name, err := net.Listen("unix", fmt.Sprintf("@strait-test-port-%d", port))
	if err != nil {
		return false
	}
	if !free(port) {
		name.Close()
		return false
	}
	t.Cleanup(func() { name.Close() })
	return true
}

// free is whether nobody uses a port.
func free(port int) bool {
	at := fmt.Sprintf(":%d", port)
	u, err := net.ListenPacket("udp", at)
	if err != nil {
		return false
	}
	defer u.Close()
	l, err := net.Listen("tcp", at)
	if err != nil {
		return false
	}
	defer l.Close()
	return true
}
