//go:build linux

package main

import "testing"

func TestNodeExitCodes(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"node"}, exitUsage},
		{[]string{"node", "node-1"}, exitUsage},
		{[]string{"node", "--kubeconfig"}, exitUsage},
		{[]string{"node", "--node", "node-1", "--kubeconfig", "/nowhere"}, exitFailed},
	} {
		if got := execute(newRoot(), c.args); got != c.want {
			t.Errorf("strait %v: exit code %d, want %d", c.args, got, c.want)
		}
	}
}
