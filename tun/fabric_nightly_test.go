//go:build nightly

package tun

import (
	"testing"
	"time"

	"strait.dev/strait/test/wait"
)

func TestAFarEndThatLostItsSessionIsBackWithin10s(t *testing.T) {
	a, _, replace := losesItsSession(t)
	begun := time.Now()
	replace()
	wait.Until(t, "the link is up again", a.isUp)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the link was up again after %v", took)
	}
}
