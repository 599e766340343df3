package nodes

import (
	"fmt"
	"os"
	"path/filepath"
)

// cniFile is the file that configures the networks of a node's pods.
const cniFile = "10-lab.conflist"

// configure writes the configuration of the node's daemons.
func (n *node) configure() error {
	if err := os.Mkdir(n.file("cni"), 0o755); err != nil {
		return err
	}
	files := map[string]string{
		"kubelet.yaml": n.kubeletSettings(), "kube-proxy.yaml": n.proxySettings(), "containerd.toml": n.containerdSettings(),
		"resolv.conf": "nameserver 127.0.0.1\n",
	}
	if n.c.cni == Bridge {
		files[filepath.Join("cni", cniFile)] = n.cniSettings(0)
	}
	for name, text := range files {
		if err := os.WriteFile(n.file(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) kubeletSettings() string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false # some machines have version 1 still
failSwapOn: false
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
volumePluginDir: /var/lib/kubelet/plugins
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %s}}
authorization: {mode: Webhook}
clusterDNS: ["%s"]
clusterDomain: cluster.local
resolvConf: %s
evictionHard: {memory.available: 100Mi, nodefs.available: 1%%, imagefs.available: 1%%}
imageGCHighThresholdPercent: 100
seccompDefault: true
`, n.c.file("ca.crt"), n.c.families[0].dns, n.file("resolv.conf"))
}

func (n *node) proxySettings() string {
	return fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: %s}
clusterCIDR: %s
hostnameOverride: %s
conntrack: {maxPerCore: 0, min: 0} # a setting of the whole machine
`, n.c.file("kube-proxy.kubeconfig"), list(n.c.families, func(f family) string { return f.podCIDR(n.c.pods) }), n.name)
}

func (n *node) containerdSettings() string {
	return fmt.Sprintf(`version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '%s'
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true # root without CAP_SYS_RESOURCE cannot lower it
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['/usr/lib/cni']
conf_dir = '%s'
`, Busybox, n.file("cni"))
}

// cniSettings configures a bridge for the node's pods; their MTU is that of the bridge if it
// is 0.
func (n *node) cniSettings(mtu int) string {
	ranges := list(n.c.families, func(f family) string { return fmt.Sprintf(`[{"subnet": "%s"}]`, f.podRange(n.c.pods, n.number)) })
	routes := list(n.c.families, func(f family) string { return fmt.Sprintf(`{"dst": "%s"}`, f.everywhere) })
	return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "lab", "plugins": [
	{"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "mtu": %d,
	 "ipam": {"type": "host-local", "ranges": [%s], "routes": [%s]}}]}
`, mtu, ranges, routes)
}
