package control

import (
	"slices"
	"testing"
)

func TestTheHighestVersionThatBothSpeakIsTaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		theirs, ours []int
		want         int
		says         string
	}{
		{[]int{1}, []int{1}, 1, ""},
		{[]int{1, 2}, []int{1}, 1, ""},
		{[]int{2, 1}, []int{1, 2}, 2, ""},
		{[]int{3, 2}, []int{1, 2}, 2, ""},
		{[]int{2}, []int{1}, 0, "the far end speaks versions [2] of the control protocol, this gateway [1]: upgrade this gateway"},
		{[]int{1}, []int{2, 3}, 0, "the far end speaks versions [1] of the control protocol, this gateway [2 3]: upgrade the other cluster's gateway"},
		{[]int{0, -1}, []int{1}, 0, "the far end speaks versions [0 -1] of the control protocol, this gateway [1]: upgrade the other cluster's gateway"},
	} {
		got, err := common(c.theirs, c.ours)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != c.want || text != c.says {
			t.Errorf("theirs %v, ours %v: %d, %q", c.theirs, c.ours, got, text)
		}
	}
}

func FuzzVersions(f *testing.F) {
	f.Add([]byte(`{"versions":[1,2]}`))
	f.Add([]byte(`{"versions":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		versions, err := decodeVersions(b)
		if err != nil {
			return
		}
		if n := len(versions); n == 0 || n > maxVersions {
			t.Fatalf("%d versions", n)
		}
		if v, err := common(versions, spoken); err == nil && !slices.Contains(versions, v) {
			t.Errorf("chose %d of %v", v, versions)
		}
	})
}
