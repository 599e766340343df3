package control

import (
	"fmt"
	"slices"
)

// spoken are the versions that this gateway speaks, oldest first.
var spoken = []int{1}

// maxVersions is how many versions a far end may list.
const maxVersions = 16

// versionsBody is the answer to GET /versions.
type versionsBody struct {
	Versions []int `json:"versions"`
}

// decodeVersions reads which versions a far end speaks.
func decodeVersions(b []byte) ([]int, error) {
	var v versionsBody
	if err := decode(b, &v); err != nil {
		return nil, err
	}
	if n := len(v.Versions); n == 0 || n > maxVersions {
		return nil, fmt.Errorf("lists %d versions, not 1 to %d", n, maxVersions)
	}
	return v.Versions, nil
}

// Skew is the error of two ends that speak no version in common.
type Skew struct {
	Theirs, Ours []int // versions, none empty
}

// Behind reports whether it is this end that has to be upgraded.
func (s *Skew) Behind() bool { return slices.Min(s.Theirs) > slices.Max(s.Ours) }

func (s *Skew) Error() string {
	behind := "the other cluster's gateway"
	if s.Behind() {
		behind = "this gateway"
	}
	return fmt.Sprintf("the far end speaks versions %v of the control protocol, this gateway %v: upgrade %s", s.Theirs, s.Ours, behind)
}

// common is the highest version that both ends speak, or a *Skew.
func common(theirs, ours []int) (int, error) {
	best := 0
	for _, v := range theirs {
		if v > best && slices.Contains(ours, v) {
			best = v
		}
	}
	if best != 0 {
		return best, nil
	}
	return 0, &Skew{Theirs: theirs, Ours: ours}
}
