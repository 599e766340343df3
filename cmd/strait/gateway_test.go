//go:build linux

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"strait.dev/strait/internal/daemon"
)

func TestGatewayExitCodes(t *testing.T) {
	for _, name := range []string{"STRAIT_PEERING", "POD_NAME", "POD_IPS", "POD_NAMESPACE"} {
		t.Setenv(name, "")
	}
	dir := t.TempDir()
	access := filepath.Join(dir, "kubeconfig")
	whole := []string{"gateway", "--peering", "b", "--name", "b-0", "--pod-ips", "192.0.2.10", "--namespace", "strait-gateways",
		"--key-dir", dir, "--cache-dir", dir, "--kubeconfig", access}
	replaced := func(flag, value string) []string {
		args := append([]string{}, whole...)
		for i := range args {
			if args[i] == flag {
				args[i+1] = value
			}
		}
		return args
	}
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"gateway"}, exitUsage},
		{[]string{"gateway", "surplus"}, exitUsage},
		{[]string{"gateway", "--check"}, exitUsage},
		{[]string{"gateway", "--config", "gateway.yaml", "--peering", "b"}, exitUsage},
		{[]string{"gateway", "--config", filepath.Join(dir, "absent.yaml")}, exitFailed},
		{replaced("--peering", ""), exitUsage},
		{replaced("--pod-ips", "here"), exitUsage},
		{replaced("--key-dir", ""), exitUsage},
		{replaced("--cache-dir", filepath.Join(dir, "absent")), exitUsage},
		{whole, exitFailed}, // there is no such kubeconfig
	} {
		if code := execute(newRoot(), c.args); code != c.want {
			t.Errorf("strait %v ends with %d, want %d", c.args, code, c.want)
		}
	}
}

func TestAGatewayInKubernetesReadsItsEnvironment(t *testing.T) {
	for name, value := range map[string]string{"STRAIT_PEERING": "b", "POD_NAME": "b-0", "POD_IPS": "10.0.1.9,fd00:10::9", "POD_NAMESPACE": "strait-gateways", "POD_UID": "u"} {
		t.Setenv(name, value)
	}
	g := gatewayObjects{keyDir: "keys", cacheDir: t.TempDir(), namespace: "other"}
	o, err := g.options(daemon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if o.Peering != "b" || o.Name != "b-0" || o.Namespace != "other" || o.PodUID != "u" || len(o.PodAddresses) != 2 || o.PodAddresses[1].String() != "fd00:10::9" {
		t.Errorf("%+v", o)
	}
	g = gatewayObjects{keyDir: "keys"}
	if _, err := g.options(daemon.Options{}); err == nil || !strings.HasPrefix(err.Error(), "--cache-dir is missing: directory for a copy") {
		t.Errorf("says %v", err)
	}
}
