//go:build apiserver

package chart

import (
	"strings"
	"testing"
)

func TestWrongValuesAreRejectedByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ set, want string }{
		{"colour=red", "additional properties 'colour' not allowed"},
		{"image.name=strait", "at '/image': additional properties 'name' not allowed"},
		{"image.repository=Strait", "at '/image/repository'"},
		{"image.repository=strait:v1@sha256", "at '/image/repository'"},
		{"image.tag=a b", "at '/image/tag'"},
		{"image.digest=0123", "at '/image/digest'"},
		{"image.pullPolicy=Sometimes", "at '/image/pullPolicy'"},
		{"imagePullSecrets[0]=pull", "at '/imagePullSecrets/0': got string, want object"},
		{"imagePullSecrets[0].nom=pull", "missing property 'name'"},
		{"clusterNetwork.podCIDR={10.0.0.0/16}", "at '/clusterNetwork': additional properties 'podCIDR' not allowed"},
		{"clusterNetwork.podCIDRs=10.0.0.0/16", "at '/clusterNetwork/podCIDRs': got string, want array"},
		{"clusterNetwork.podCIDRs={10.0.0.0}", "at '/clusterNetwork/podCIDRs/0'"},
		{"clusterNetwork.clusterID=A_B", "at '/clusterNetwork/clusterID'"},
		{"clusterNetwork.overlay.mut=1400", "at '/clusterNetwork/overlay': additional properties 'mut' not allowed"},
		{"clusterNetwork.overlay.mtu=large", "at '/clusterNetwork/overlay/mtu'"},
		{"clusterNetwork.overlay.encapsulation=gre", "at '/clusterNetwork/overlay/encapsulation'"},
		{"clusterNetwork.podCIDRs={999.1.1.1/24}", "at '/clusterNetwork/podCIDRs/0'"},
		{"clusterNetwork.podCIDRs={10.0.0.0/33}", "at '/clusterNetwork/podCIDRs/0'"},
		{"clusterNetwork.remapPools={fd00::/129}", "at '/clusterNetwork/remapPools/0'"},
		{"clusterNetwork.overlay.mtu=-5", "at '/clusterNetwork/overlay/mtu'"},
		{"clusterNetwork.overlay.mtu=70000", "at '/clusterNetwork/overlay/mtu'"},
		{"controller.replicas=0", "at '/controller/replicas': minimum"},
		{"controller.replicas=two", "at '/controller/replicas': got string, want integer"},
		{"controller.replica=2", "at '/controller': additional properties 'replica' not allowed"},
		{"controller.resources.limit.memory=1Gi", "at '/controller/resources': additional properties 'limit' not allowed"},
		{"controller.resources.limits.memory=abc", "at '/controller/resources/limits/memory'"},
		{"controller.resources.limits.memory=256 Mi", "at '/controller/resources/limits/memory'"},
		{"gateway.resources.requests.cpu=-1", "at '/gateway/resources/requests/cpu'"},
		{"gateway.priorityClassName=very important", "at '/gateway/priorityClassName'"},
		{"controller.labels.team=7", "at '/controller/labels/team': got number, want string"},
		{"controller.tolerations[0].opertor=Exists", "at '/controller/tolerations/0': additional properties 'opertor' not allowed"},
		{"controller.affinity.node=a", "at '/controller/affinity': additional properties 'node' not allowed"},
		{"gateway.networkPolicy=maybe", "at '/gateway/networkPolicy': got string, want boolean"},
		{"gateway.replicas=2", "at '/gateway': additional properties 'replicas' not allowed"},
		{"gateway.topologySpreadConstraints[0].maxSkew=1", "missing properties"},
		{"gateway.extraEnv[0].value=a", "missing property 'name'"},
		{"node.enabled=maybe", "at '/node/enabled': got string, want boolean"},
		{"node.tun=kernel", "at '/node/tun': got string, want boolean"},
		{"node.maxUnavailable=0", "at '/node/maxUnavailable'"},
		{"node.maxUnavailable=200%", "at '/node/maxUnavailable'"},
		{"node.tolerations[0].effect=NoWay", "at '/node/tolerations/0/effect'"},
		{"crds.install=once", "at '/crds/install': got string, want boolean"},
		{"networkPolicy.metricsFrom[0].pod=a", "at '/networkPolicy/metricsFrom/0': additional properties 'pod' not allowed"},
		{"metrics.podMonitor.interval=often", "at '/metrics/podMonitor/interval'"},
		{"metrics.serviceMonitor.enabled=true", "at '/metrics': additional properties 'serviceMonitor' not allowed"},
		{"prometheusRule.rules={a}", "at '/prometheusRule': additional properties 'rules' not allowed"},
		{"dashboards.folder=Strait", "at '/dashboards': additional properties 'folder' not allowed"},
	} {
		if _, err := template(t, "--set", c.set); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("--set %s: %v, want %q", c.set, err, c.want)
		}
	}
}

func TestValuesOfAllFormsAreAccepted(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"clusterNetwork.podCIDRs={10.0.0.0/8,fd00::/128,::/0,255.255.255.255/32}", "clusterNetwork.overlay.mtu=0", "clusterNetwork.overlay.mtu=1280",
		"controller.resources.limits.memory=1.5Gi", "controller.resources.limits.cpu=0.5", "controller.resources.requests.cpu=100m", "gateway.resources.limits.memory=268435456",
		"controller.priorityClassName=", "node.priorityClassName=team-a.high",
	} {
		if _, err := template(t, "--set", set); err != nil {
			t.Errorf("--set %s: %v", set, err)
		}
	}
}

func TestOlderKubernetesIsRejected(t *testing.T) {
	t.Parallel()
	if _, err := template(t, "--kube-version", "1.30.9"); err == nil || !strings.Contains(err.Error(), "incompatible") {
		t.Errorf("Kubernetes 1.30: %v", err)
	}
	for _, version := range []string{"1.31.0", "1.33.5-gke.100", "1.36.3+k3s1"} {
		if _, err := template(t, "--kube-version", version); err != nil {
			t.Errorf("Kubernetes %s: %v", version, err)
		}
	}
}
