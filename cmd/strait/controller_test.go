package main

import (
	"path/filepath"
	"testing"
)

func TestControllerEndsWithTheCodeOfItsMistake(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	t.Setenv("POD_NAME", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	absent := filepath.Join(t.TempDir(), "kubeconfig")
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"controller"}, exitUsage},
		{[]string{"controller", "surplus"}, exitUsage},
		{[]string{"controller", "--namespace", "strait-system"}, exitUsage},
		{[]string{"controller", "--identity", "me"}, exitUsage},
		{[]string{"controller", "--namespace", "strait-system", "--identity", "me"}, exitFailed}, // this is no pod
		{[]string{"controller", "--namespace", "strait-system", "--identity", "me", "--kubeconfig", absent}, exitFailed},
	} {
		if code := run(c.args); code != c.want {
			t.Errorf("strait %v ends with %d, want %d", c.args, code, c.want)
		}
	}
	t.Setenv("POD_NAMESPACE", "strait-system")
	t.Setenv("POD_NAME", "controller-0")
	if code := run([]string{"controller", "--kubeconfig", absent}); code != exitFailed {
		t.Errorf("in a pod, without its kubeconfig, strait controller ends with %d, want %d", code, exitFailed)
	}
}
