package dns

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/operate/findings"
)

// cacheCorefile is the Corefile of Kubernetes' manifest of NodeLocal DNSCache, with the
// addresses of a cluster.
const cacheCorefile = `cluster.local:53 {
    errors
    cache {
        success 9984 30
        denial 9984 5
    }
    reload
    loop
    bind 169.254.20.10 10.96.0.10
    forward . 10.96.7.7 {
        force_tcp
    }
    prometheus :9253
    health 169.254.20.10:8080
}
in-addr.arpa:53 {
    cache 30
    bind 169.254.20.10 10.96.0.10
    forward . 10.96.7.7 {
        force_tcp
    }
}
.:53 {
    errors
    cache 30
    bind 169.254.20.10 10.96.0.10
    forward . /etc/resolv.conf
}
`

const cacheBlock = `
# Added by strait dns configure: names of Services that other clusters export.
clusterset.local:53 {
    errors
    cache 30
    reload
    bind 169.254.20.10 10.96.0.10
    forward . 10.96.7.7 {
        force_tcp
    }
}
`

// cacheSet is the DaemonSet of NodeLocal DNSCache, with a ConfigMap.
func cacheSet(name, label, image, config string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name, Labels: map[string]string{"k8s-app": label}},
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "node-cache", Image: image, Args: []string{"-localip", "169.254.20.10,10.96.0.10", "-conf", "/etc/Corefile"}}},
			Volumes: []corev1.Volume{
				{Name: "kube-dns-config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-dns"}, Optional: new(true)}}},
				{Name: "config-volume", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: config}, Items: []corev1.KeyToPath{{Key: "Corefile", Path: "Corefile.base"}}}}},
			},
		}}},
	}
}

// d002 returns the finding about the configuration.
func d002(t *testing.T, all []findings.Finding) findings.Finding {
	t.Helper()
	i := slices.IndexFunc(all, func(f findings.Finding) bool { return f.Code == "STRAIT-D002" })
	if i < 0 {
		t.Fatalf("no finding about the configuration in %v", all)
	}
	return all[i]
}

func TestNodeLocalDNSCacheForwardsTheZoneToCoreDNS(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, label, image, config string
		corefile, block            string
	}{
		{"node-local-dns", "node-local-dns", "registry.k8s.io/dns/k8s-dns-node-cache:1.26.4", "node-local-dns", cacheCorefile, cacheBlock},
		{"nodelocaldns", "nodelocaldns", "mirror.example/cache:1", "nodelocaldns", cacheCorefile, cacheBlock},
		{"a-name", "", "registry.k8s.io/dns/k8s-dns-node-cache:1.26.4", "a-config",
			"cluster.local:53 {\n  bind 169.254.20.10\n  forward . __PILLAR__CLUSTER__DNS__ {\n    force_tcp\n  }\n}\n.:53 {\n  bind 169.254.20.10\n  forward . __PILLAR__UPSTREAM__SERVERS__\n}\n",
			"\n# Added by strait dns configure: names of Services that other clusters export.\nclusterset.local:53 {\n    errors\n    cache 30\n    bind 169.254.20.10\n    forward . __PILLAR__CLUSTER__DNS__ {\n        force_tcp\n    }\n}\n"},
		// forward restricted to the zone, another one before it, and a period of reload that the last plugin would change
		{"restricted", "node-local-dns", "mirror.example/cache:1", "a-config",
			"cluster.local:53 {\n  reload 5s 1s\n  bind 169.254.20.10\n  forward corp.cluster.local 192.0.2.1\n  forward cluster.local 10.96.7.7 10.96.7.8\n}\n.:53 {\n  bind 169.254.20.10\n  forward . /etc/resolv.conf\n}\n",
			"\n# Added by strait dns configure: names of Services that other clusters export.\nclusterset.local:53 {\n    errors\n    cache 30\n    reload 5s 1s\n    bind 169.254.20.10\n    forward . 10.96.7.7 10.96.7.8\n}\n"},
	} {
		_, cluster := clusterWith(t, deployment("registry.k8s.io/coredns/coredns:v1.13.1"), configMap("coredns", map[string]string{"Corefile": kubeadm}),
			cacheSet(c.name, c.label, c.image, c.config), configMap(c.config, map[string]string{"Corefile": c.corefile}))
		plan, err := PlanConfigure(t.Context(), cluster.Client, inKubeSystem)
		must(t, err)
		if is := objectsOf(plan); !slices.Equal(is, []string{"ClusterRole and ClusterRoleBinding strait-coredns", "ConfigMap kube-system/coredns", "ConfigMap kube-system/" + c.config}) {
			t.Errorf("%s: planned: %v", c.name, is)
		}
		must(t, plan.Apply(t.Context(), cluster.Client))
		if is := data(t, cluster.Client, c.config)["Corefile"]; is != c.corefile+c.block {
			t.Errorf("%s: configured:\n%s", c.name, is)
		}
		if is := d002(t, Check(t.Context(), cluster, inKubeSystem)); is.Severity != findings.OK {
			t.Errorf("%s: checked: %+v", c.name, is)
		}
		plan, err = PlanConfigure(t.Context(), cluster.Client, inKubeSystem)
		must(t, err)
		if len(plan.Changes) > 0 {
			t.Errorf("%s: a second time: %v", c.name, objectsOf(plan))
		}
		plan, err = PlanRemove(t.Context(), cluster.Client, inKubeSystem)
		must(t, err)
		must(t, plan.Apply(t.Context(), cluster.Client))
		if is := data(t, cluster.Client, c.config)["Corefile"]; is != c.corefile {
			t.Errorf("%s: removed:\n%s", c.name, is)
		}
	}
}

// CoreDNS serves the zone, but pods ask the cache, which does not know it.
func TestACacheThatDoesNotForwardTheZoneIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		corefile string
		severity findings.Severity
	}{
		"the zone goes to the name servers of the node": {cacheCorefile, findings.Warning},
		"a server block that forwards elsewhere":        {cacheCorefile + strings.ReplaceAll(cacheBlock, "10.96.7.7", "192.0.2.53"), findings.Warning},
		"all names go to CoreDNS":                       {"cluster.local:53 .:53 {\n  forward . 10.96.7.7\n}\n", findings.OK},
		"a server block by hand":                        {cacheCorefile + "clusterset.local {\n  bind 10.96.0.10 169.254.20.10\n  forward . 10.96.7.7\n}\n", findings.OK},
		"one that binds no address of the cache":        {cacheCorefile + "clusterset.local {\n  forward . 10.96.7.7\n}\n", findings.Warning},
		"one that binds one of two addresses":           {cacheCorefile + "clusterset.local {\n  bind 169.254.20.10\n  forward . 10.96.7.7\n}\n", findings.Warning},
		"one that forwards other names":                 {cacheCorefile + "clusterset.local {\n  bind 169.254.20.10 10.96.0.10\n  forward cluster.local 10.96.7.7\n}\n", findings.Warning},
		"one at another port":                           {cacheCorefile + strings.ReplaceAll(cacheBlock, ":53", ":5353"), findings.Warning},
	} {
		_, cluster := clusterWith(t, deployment("coredns:1.13.1"), configMap("coredns", map[string]string{"Corefile": kubeadm}))
		plan, err := PlanConfigure(t.Context(), cluster.Client, inKubeSystem)
		must(t, err)
		must(t, plan.Apply(t.Context(), cluster.Client))
		_, err = cluster.Client.DaemonSets(metav1.NamespaceSystem).Create(t.Context(), cacheSet("node-local-dns", "node-local-dns", "k8s-dns-node-cache:1.26.4", "node-local-dns"), metav1.CreateOptions{})
		must(t, err)
		_, err = cluster.Client.ConfigMaps(metav1.NamespaceSystem).Create(t.Context(), configMap("node-local-dns", map[string]string{"Corefile": c.corefile}), metav1.CreateOptions{})
		must(t, err)
		is := d002(t, Check(t.Context(), cluster, inKubeSystem))
		if is.Severity != c.severity || is.Severity == findings.Warning && !strings.Contains(is.Message, "DaemonSet kube-system/node-local-dns, which answers the DNS queries of pods, does not forward the zone") {
			t.Errorf("%s: %+v", name, is)
		}
	}
}

func TestACacheThatCannotBeConfiguredIsExplained(t *testing.T) {
	t.Parallel()
	for want, corefile := range map[string]string{
		"no server block forwards cluster.local":      ".:53 {\n  forward . /etc/resolv.conf\n}\n",
		"the server block of clusterset.local":        cacheCorefile + "clusterset.local {\n  forward . 192.0.2.1\n}\n",
		"is not closed":                               cacheCorefile + "x {\n",
		"has no ConfigMap with a Corefile; let it fo": "",
	} {
		objects := configMap("node-local-dns", map[string]string{"Corefile": corefile})
		if corefile == "" {
			objects.Data = nil
		}
		_, cluster := clusterWith(t, deployment("coredns:1.13.1"), configMap("coredns", map[string]string{"Corefile": kubeadm}), objects,
			cacheSet("node-local-dns", "node-local-dns", "k8s-dns-node-cache:1.26.4", "node-local-dns"))
		if _, err := PlanConfigure(t.Context(), cluster.Client, inKubeSystem); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// k3s and AKS have a ConfigMap for server blocks of users; their caches need the zone as well.
func TestACacheBeforeACoreDNSWithCustomServerBlocksIsConfigured(t *testing.T) {
	t.Parallel()
	_, cluster := clusterWith(t, withCustom(deployment("rancher/mirrored-coredns-coredns:1.13.1")), configMap("coredns", map[string]string{"Corefile": k3s}),
		cacheSet("node-local-dns", "node-local-dns", "k8s-dns-node-cache:1.26.4", "node-local-dns"), configMap("node-local-dns", map[string]string{"Corefile": cacheCorefile}))
	plan, err := PlanConfigure(t.Context(), cluster.Client, inKubeSystem)
	must(t, err)
	must(t, plan.Apply(t.Context(), cluster.Client))
	if is := data(t, cluster.Client, "node-local-dns")["Corefile"]; is != cacheCorefile+cacheBlock {
		t.Errorf("configured:\n%s", is)
	}
	if is := data(t, cluster.Client, "coredns-custom")["strait.server"]; is != serverBlockText("53") {
		t.Errorf("the server block of CoreDNS:\n%s", is)
	}
}

func TestKubeDNSForwardsTheZoneWithAStubDomain(t *testing.T) {
	t.Parallel()
	d := deployment("registry.k8s.io/dns/k8s-dns-kube-dns:1.26.4")
	d.Name, d.Spec.Template.Spec.Containers[0].Args = "kube-dns", nil
	stub := func(text string) *corev1.ConfigMap {
		return configMap("kube-dns", map[string]string{"stubDomains": text})
	}

	_, cluster := clusterWith(t, d, stub(`{"clusterset.local": ["10.96.0.53"]}`))
	if is := codes(Check(t.Context(), cluster, inKubeSystem)); !slices.Equal(is, []string{"ok STRAIT-D001", "ok STRAIT-D002"}) {
		t.Errorf("configured: %v", is)
	}
	plan, err := PlanConfigure(t.Context(), cluster.Client, inKubeSystem)
	must(t, err)
	if len(plan.Changes) > 0 {
		t.Errorf("planned: %v", objectsOf(plan))
	}
	if _, err = PlanRemove(t.Context(), cluster.Client, inKubeSystem); err == nil || !strings.Contains(err.Error(), "remove the zone from stubDomains in ConfigMap kube-dns") {
		t.Errorf("removal: %v", err)
	}

	_, cluster = clusterWith(t, d, stub(`{"example.org": ["192.0.2.53"]}`))
	if plan, err = PlanRemove(t.Context(), cluster.Client, inKubeSystem); err != nil || len(plan.Changes) > 0 {
		t.Errorf("removal of nothing: %+v, %v", plan, err)
	}
	_, err = PlanConfigure(t.Context(), cluster.Client, inKubeSystem)
	if err == nil || !strings.Contains(err.Error(), `stubDomains: '{"clusterset.local":["CLUSTER-IP"],"example.org":["192.0.2.53"]}' in ConfigMap kube-dns`) {
		t.Errorf("not configured: %v", err)
	}
	if is := codes(Check(t.Context(), cluster, inKubeSystem)); !slices.Equal(is, []string{"warning STRAIT-D001", "skipped STRAIT-D002"}) {
		t.Errorf("not configured: %v", is)
	}
	_, cluster = clusterWith(t, d, stub(`[]`))
	if _, err = PlanConfigure(t.Context(), cluster.Client, inKubeSystem); err == nil || !strings.Contains(err.Error(), "stubDomains is not a JSON object of lists") {
		t.Errorf("malformed: %v", err)
	}
}

// The cache reads the stub domains of kube-dns too.
func TestACacheWithAStubDomainForwardsTheZone(t *testing.T) {
	t.Parallel()
	_, cluster := clusterWith(t, deployment("coredns:1.13.1"), configMap("coredns", map[string]string{"Corefile": kubeadm}), configMap("kube-dns", map[string]string{"stubDomains": `{"clusterset.local": ["10.96.7.7"]}`}),
		cacheSet("node-local-dns", "node-local-dns", "k8s-dns-node-cache:1.26.4", "node-local-dns"), configMap("node-local-dns", map[string]string{"Corefile": cacheCorefile}))
	plan, err := PlanConfigure(t.Context(), cluster.Client, inKubeSystem)
	must(t, err)
	if is := objectsOf(plan); slices.Contains(is, "ConfigMap kube-system/node-local-dns") {
		t.Errorf("planned: %v", is)
	}
}

// After a change of its addresses, a cache that binds one that no longer exists does not start.
func TestAServerBlockForFormerAddressesIsReplaced(t *testing.T) {
	t.Parallel()
	former, own := cacheCorefile+cacheBlock, []string{"cluster.local"}
	moved := strings.NewReplacer("169.254.20.10", "169.254.25.10", "10.96.7.7", "10.96.8.8")
	is, err := ConfigureForward(moved.Replace(cacheCorefile)+cacheBlock+"# kept\n", own)
	must(t, err)
	if want := moved.Replace(cacheCorefile) + "# kept\n" + moved.Replace(cacheBlock); is != want {
		t.Errorf("configured:\n%s", is)
	}
	if is := RemoveForward(former); is != cacheCorefile {
		t.Errorf("removed:\n%s", is)
	}
	if is := RemoveForward(former[:len(former)-2]); is != former[:len(former)-2] { // not closed
		t.Errorf("removed:\n%s", is)
	}
}
