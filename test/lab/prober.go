package lab

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/node"
	"strait.dev/strait/nodeprobe"
)

// ProberOf returns a function that waits until the node of a site is told a state by an address
// of its gateway.
func ProberOf(t *testing.T, s *Site) (told func(want nodeprobe.State, by netip.Addr)) {
	t.Helper()
	var prober *node.Prober
	if err := s.Node.In(func() (err error) { prober, err = node.NewProber(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prober.Close)
	return func(want nodeprobe.State, by netip.Addr) {
		t.Helper()
		Eventually(t, "the node is told "+want.String()+" by "+by.String(), func() bool {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			var m nodeprobe.Message
			err := prober.Ask(ctx, by, func(answer nodeprobe.Message) { m = answer; stop() })
			return err == nil && m.State == want && (m.Interval == nodeprobe.RestInterval || m.Interval == nodeprobe.MinInterval)
		})
	}
}
