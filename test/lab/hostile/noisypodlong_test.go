//go:build nightly

package hostile

import (
	"testing"
	"time"
)

func TestT10_ANoisyPodCostsItsNodeNoProbeForHalfAMinute(t *testing.T) {
	testNoisyPod(t, 30*time.Second)
}
