package lab

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// WaitForPing pings until the first reply: then the path works.
func WaitForPing(t *testing.T, from *Namespace, to netip.Addr, args ...string) {
	t.Helper()
	args = append([]string{"-n", "-c", "1", "-W", "1", to.String()}, args...)
	Eventually(t, fmt.Sprintf("%s answers a ping from %s", to, from.Role), func() bool {
		_, err := from.Try("ping", args...)
		return err == nil
	})
}

// Ping expects a reply to each of the first count requests. It continues until that many
// are answered, so that a late reply does not count as lost.
func Ping(t *testing.T, from *Namespace, to netip.Addr, count int, args ...string) {
	t.Helper()
	args = append([]string{"-n", "-c", fmt.Sprint(count), "-i", "0.05", "-w", "3600", to.String()}, args...)
	out := from.Run(t, "ping", args...)
	for request := 1; request <= count; request++ {
		if !strings.Contains(out, fmt.Sprintf(" icmp_seq=%d ttl=", request)) {
			t.Errorf("in %s: ping %s: request %d was not answered\n%s", from.Role, strings.Join(args, " "), request, out)
			return
		}
	}
	if strings.Contains(out, "DUP!") {
		t.Errorf("in %s: ping %s: answered twice\n%s", from.Role, strings.Join(args, " "), out)
	}
}
