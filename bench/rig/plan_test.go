package rig

import (
	"slices"
	"testing"
)

// A baseline that has a test less than strait rests meanwhile, and takes the next one in another state.
func TestABaselineHasTheTestsOfStrait(t *testing.T) {
	t.Parallel()
	for _, test := range allTests(fullLengths, nil, true) {
		if slices.Contains(test.subjects, nameStrait) != slices.Contains(test.subjects, nameBaseline) {
			t.Errorf("%s/%s: only one of %s and %s has it", test.mode, test.name, nameStrait, nameBaseline)
		}
	}
}
