//go:build nightly

package config

import (
	"testing"
	"time"
)

// linear is far more than checks take whose time grows with the configuration. One that
// grows with its square takes many minutes; the race detector on a busy machine slows a
// linear one a lot.
const linear = 2 * time.Minute

func TestF20_FiveThousandNodesWithAHundredThousandPrefixesTakeSeconds(t *testing.T) {
	begun := time.Now()
	loads(t, 5000)
	took := time.Since(begun)
	t.Logf("loaded in %v", took.Round(time.Millisecond))
	if took > linear {
		t.Errorf("took %v", took)
	}
}

func TestAHundredThousandProblemsTakeSecondsToo(t *testing.T) {
	begun := time.Now()
	findsEveryProblem(t, 5000)
	if took := time.Since(begun); took > linear {
		t.Errorf("took %v", took)
	}
}
