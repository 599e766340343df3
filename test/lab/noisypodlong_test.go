//go:build nightly

package lab

import (
	"testing"
	"time"
)

func TestT10_ANoisyPodCostsItsNodeNoProbeForHalfAMinute(t *testing.T) {
	testNoisyPod(t, 30*time.Second)
}
