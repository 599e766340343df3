//go:build nightly

package e2e

import "testing"

// The gateways of both clusters are drained, killed and given new keys while flows run.
func TestDisruptionsCostWhatIsPublished(t *testing.T) {
	w := newWorld(t)
	w.install(t)
	w.join(t)
	w.joined(t, 2)
	out, err := w.try(t, "", "strait", "verify", "--context=a", "--remote-context=b", "--disrupt", "--yes")
	t.Log(out)
	if err != nil {
		t.Error(err)
	}
}
