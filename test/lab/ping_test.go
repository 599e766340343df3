//go:build lab || nightly

package lab

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// waitForPing pings until the first reply: then the path works.
func waitForPing(t *testing.T, from *namespace, to netip.Addr, args ...string) {
	t.Helper()
	args = append([]string{"-n", "-c", "1", "-W", "1", to.String()}, args...)
	eventually(t, fmt.Sprintf("%s answers a ping from %s", to, from.role), func() bool {
		_, err := from.try("ping", args...)
		return err == nil
	})
}

// ping expects a reply to each of the first count requests. It continues until that many
// are answered, so that a late reply does not count as lost.
func ping(t *testing.T, from *namespace, to netip.Addr, count int, args ...string) {
	t.Helper()
	args = append([]string{"-n", "-c", fmt.Sprint(count), "-i", "0.05", "-w", "3600", to.String()}, args...)
	out := from.run(t, "ping", args...)
	for request := 1; request <= count; request++ {
		if !strings.Contains(out, fmt.Sprintf(" icmp_seq=%d ttl=", request)) {
			t.Errorf("in %s: ping %s: request %d was not answered\n%s", from.role, strings.Join(args, " "), request, out)
			return
		}
	}
	if strings.Contains(out, "DUP!") {
		t.Errorf("in %s: ping %s: answered twice\n%s", from.role, strings.Join(args, " "), out)
	}
}
