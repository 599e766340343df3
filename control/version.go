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

// common is the highest version that both ends speak.
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
	behind := "the other cluster's gateway"
	if slices.Min(theirs) > slices.Max(ours) {
		behind = "this gateway"
	}
	return 0, fmt.Errorf("the far end speaks versions %v of the control protocol, this gateway %v: upgrade %s", theirs, ours, behind)
}
