// Package ports gives tests port numbers for configurations.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// first and end are below the kernel's ephemeral port range (from 32768, unless
// net.ipv4.ip_local_port_range differs): a port that the kernel chose and that was released
// may be used by another connection a moment later.
const first, end = 20000, 30000

// Free returns n unused ports of this network namespace, on UDP and TCP and any address.
// Until the test ends no other test gets them, in this process or another.
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
	t.Fatalf("fewer than %d free ports from %d to %d", n, first, end-1)
	return nil
}

// Address returns a loopback address with such a port.
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Free(t, 1)[0])
}

// claim reserves a port by an abstract socket name, which one socket at a time can have
// (unix(7)), and checks whether the port is free.
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

// free reports whether a port is unused.
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
