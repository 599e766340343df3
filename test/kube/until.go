package kube

import (
	"testing"
	"time"

	"strait.dev/strait/test/wait"
)

// between is the interval of checks of Until. A check sends a request to the API server,
// which costs as much as the work that the test waits for.
const between = 20 * time.Millisecond

// Until waits until check returns "", and logs the last complaint if that never happens.
// Like wait.Until it has no separate time limit.
func Until(t testing.TB, what string, check func() (complaint string)) {
	t.Helper()
	complaint := "not checked"
	defer func() {
		if complaint != "" {
			t.Logf("%s: %s", what, complaint)
		}
	}()
	next := time.Now()
	wait.Until(t, what, func() bool {
		if time.Now().Before(next) {
			return false
		}
		complaint = check()
		next = time.Now().Add(between)
		return complaint == ""
	})
}
