package control

import (
	"fmt"
	"slices"
)

// spoken are the protocol versions that this gateway supports, oldest first.
var spoken = []int{1}

// maxVersions is the maximum number of versions that a far end may list.
const maxVersions = 16

// versionsBody is the response to GET /versions.
type versionsBody struct {
	Versions []int `json:"versions"`
}

// decodeVersions decodes the versions that a far end supports.
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

// Skew is the error of two ends without a common version.
type Skew struct {
	Theirs, Ours []int // versions, none empty
}

// Behind reports whether this end has to be upgraded.
func (s *Skew) Behind() bool { return slices.Min(s.Theirs) > slices.Max(s.Ours) }

func (s *Skew) Error() string {
	behind := "the other cluster's gateway"
	if s.Behind() {
		behind = "this gateway"
	}
	return fmt.Sprintf("the far end speaks versions %v of the control protocol, this gateway %v: upgrade %s", s.Theirs, s.Ours, behind)
}

// common returns the highest version that both ends support, or a *Skew.
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
