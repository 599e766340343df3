package preflight

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
)

// The code of findings on node helpers, and what a cluster without them lacks.
const (
	helperCode         = "STRAIT-C015"
	lostWithoutHelpers = "pods reach Services of remote clusters by name, but no pod by its address, and servers see the address of a gateway instead of the client's"
)

// platforms are those whose nodes run neither DaemonSets nor pods with the host network and
// NET_ADMIN.
var platforms = []struct {
	name string
	is   func(*corev1.Node) bool
}{
	{"EKS Fargate", onFargate},
	{"GKE Autopilot", func(n *corev1.Node) bool {
		return strings.HasPrefix(n.Spec.ProviderID, "gce://") && strings.HasPrefix(n.Spec.ProviderID[strings.LastIndexByte(n.Spec.ProviderID, '/')+1:], "gk3-")
	}},
	{"a virtual kubelet", install.IsVirtual},
}

// forbidsHelper returns the platform of a node if node helpers cannot run there, or "".
func forbidsHelper(n *corev1.Node) string {
	for _, p := range platforms {
		if p.is(n) {
			return p.name
		}
	}
	return ""
}

// forbidden counts the nodes on which no node helper can run, by platform.
func forbidden(nodes []corev1.Node) (all int, by map[string]int) {
	by = make(map[string]int)
	for i := range nodes {
		if platform := forbidsHelper(&nodes[i]); platform != "" {
			by["of "+platform]++
			all++
		}
	}
	return all, by
}

// inspects reports whether pods can inspect nodes of the cluster. They have the privileges of
// node helpers.
func (f *facts) inspects() bool {
	n, _ := forbidden(f.nodes)
	return !f.withoutHelpers && (n == 0 || n < len(f.nodes))
}

// helperInstalled reports whether the cluster has the DaemonSet of the node helpers.
func (f *facts) helperInstalled() bool {
	return slices.ContainsFunc(f.daemonSets, func(d appsv1.DaemonSet) bool {
		return d.Namespace == install.NodeNamespace && d.Labels[install.NameLabel] == install.Name
	})
}

// helperFindings checks whether node helpers can run, and says what a cluster without them
// lacks.
func (f *facts) helperFindings() []findings.Finding {
	n, by := forbidden(f.nodes)
	switch {
	case f.withoutHelpers:
		return single(helperCode, findings.Info, f.name, "without node helpers (node.enabled=false), %s", lostWithoutHelpers)
	case f.helperInstalled():
		return single(helperCode, findings.OK, f.name, "node helpers are installed")
	case n == 0:
		return single(helperCode, findings.OK, f.name, "no node is of a platform that forbids the node helper")
	case n < len(f.nodes):
		return single(helperCode, findings.Warning, f.name, "the node helper cannot run on %d of %d nodes (%s): their pods reach no remote cluster; with node.enabled=false, %s", n, len(f.nodes), operator.Counts(by), lostWithoutHelpers)
	}
	return single(helperCode, findings.Error, f.name, "the node helper cannot run on the nodes (%s): install with node.enabled=false; then %s", operator.Counts(by), lostWithoutHelpers)
}

// Refused reports whether an admission plugin, policy or webhook of the cluster refused an
// object, in contrast to missing permissions.
func Refused(err error) bool {
	return err != nil && slices.ContainsFunc([]string{"violates PodSecurity", "denied the request", "denied request"}, func(part string) bool {
		return strings.Contains(err.Error(), part)
	})
}
