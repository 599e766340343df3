//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestControllerExitCodes(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	t.Setenv("POD_NAME", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	absent := filepath.Join(t.TempDir(), "kubeconfig")
	me := func(more ...string) []string {
		return append([]string{"controller", "--namespace", "strait-system", "--identity", "me"}, more...)
	}
	dir := t.TempDir()
	template, wrong := filepath.Join(dir, "template.yaml"), filepath.Join(dir, "wrong.yaml")
	network, nowhere := filepath.Join(dir, "network.yaml"), filepath.Join(dir, "nowhere.yaml")
	for file, text := range map[string]string{
		template: "spec: {containers: [{name: gateway, image: registry.example/strait:v1}]}\n",
		wrong:    "spec: {tolerate: all}\n",
		network:  "podCIDRs: [10.0.0.0/16]\n",
		nowhere:  "podCIDR: [10.0.0.0/16]\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"controller"}, exitUsage},
		{[]string{"controller", "surplus"}, exitUsage},
		{[]string{"controller", "--namespace", "strait-system"}, exitUsage},
		{[]string{"controller", "--identity", "me"}, exitUsage},
		{me(), exitUsage}, // and gateways without an image
		{me("--gateway-image", "registry.example/strait:v1", "--gateway-namespace", ""), exitUsage},
		{me("--gateway-image", "registry.example/strait:v1", "--gateway-service-account", ""), exitUsage},
		{me("--gateway-image", "registry.example/strait:v1"), exitFailed}, // this is no pod
		{me("--gateway-image", "registry.example/strait:v1", "--kubeconfig", absent), exitFailed},
		{me("--gateway-template", template), exitFailed}, // no pod either
		{me("--gateway-template", wrong), exitFailed},
		{me("--gateway-template", absent), exitFailed},
		{me("--gateway-template", template, "--node-template", template), exitFailed}, // no pod either
		{me("--gateway-template", template, "--node-template", wrong), exitFailed},
		{me("--gateway-template", template, "--node-template", absent), exitFailed},
		{me("--gateway-template", template, "--cluster-network", network), exitFailed}, // no pod either
		{me("--gateway-template", template, "--cluster-network", nowhere), exitFailed},
		{me("--gateway-template", template, "--cluster-network", absent), exitFailed},
	} {
		if code := execute(newRoot(), c.args); code != c.want {
			t.Errorf("strait %v ends with %d, want %d", c.args, code, c.want)
		}
	}
	t.Setenv("POD_NAMESPACE", "strait-system")
	t.Setenv("POD_NAME", "controller-0")
	if code := execute(newRoot(), []string{"controller", "--gateway-image", "registry.example/strait:v1", "--kubeconfig", absent}); code != exitFailed {
		t.Errorf("in a pod, without its kubeconfig, strait controller ends with %d, want %d", code, exitFailed)
	}
}
