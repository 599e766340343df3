package controller

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/controller/network"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/k8s/peering"
)

// gatewayPods are the pods of the gateways of all Peerings and what they report, by the
// names of gateways. A report is untrusted: it counts only for the pod that wrote it, and
// that pod only for the Peering whose StatefulSet runs it.
type gatewayPods map[string]gatewayPod

type gatewayPod struct {
	*corev1.Pod

	report   *v1alpha1.GatewayReportStatus // nil: none yet
	unstable bool                          // its links came up too often, and are treated as down
}

// gatewayPods returns the pods of the gateways of Peerings, with their reports, also of
// gateways that the spec no longer has.
func (c *controller) gatewayPods(peerings []*v1alpha1.Peering) gatewayPods {
	all := make(gatewayPods)
	for _, p := range peerings {
		set, ok := c.statefulSetOf(p)
		if !ok {
			continue
		}
		for ordinal := range int32(config.MaxReplicas) {
			name := peering.GatewayName(p, ordinal)
			pod, ok := c.pods.Get(c.gateways.Namespace + "/" + name)
			if !ok || !metav1.IsControlledBy(pod, set) {
				continue
			}
			one := gatewayPod{Pod: pod}
			if r, ok := c.reports.Get(c.gateways.Namespace + "/" + name); ok && writtenBy(r, pod) {
				one.report = &r.Status
				if c.processes != nil && c.processes.ended(pod.UID) {
					one.report = r.Status.DeepCopy()
					one.report.Links = nil
				}
			}
			all[name] = one
		}
	}
	return all
}

// writtenBy reports whether a pod wrote a report, and not an earlier pod of that name.
func writtenBy(r *v1alpha1.GatewayReport, pod *corev1.Pod) bool {
	return slices.ContainsFunc(r.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == pod.UID })
}

// linkUp reports whether a gateway runs and has a link up, according to the report of this
// pod.
func (p gatewayPod) linkUp() bool {
	return p.Pod != nil && podRuns(p.Pod) && p.report != nil && !p.unstable &&
		slices.ContainsFunc(p.report.Links, func(l v1alpha1.LinkStatus) bool { return l.Up })
}

// names returns the names of the gateways of a Peering, by ordinal: those of its spec, and
// others that still have a pod. A gateway that is removed stays known to nodes and to the
// remote cluster, with its addresses, key and Service, until its pod has ended: it forwards
// until then.
func (g gatewayPods) names(p *v1alpha1.Peering) []string {
	names := gatewayNames(p)
	for ordinal := p.Spec.Gateway.Replicas; ordinal < config.MaxReplicas; ordinal++ {
		if name := peering.GatewayName(p, ordinal); g[name].Pod != nil {
			names = append(names, name)
		}
	}
	return names
}

// known returns the names of the gateways of a merged Peering: those that names returned.
func known(p *v1alpha1.Peering) (names []string) {
	for _, g := range p.Status.Gateways {
		names = append(names, g.Name)
	}
	return names
}

// ready reports whether the pod of a gateway is ready, whatever its readiness gate says.
func (g gatewayPods) ready(name string) bool {
	pod, ok := g[name]
	return ok && podRuns(pod.Pod)
}

func (g gatewayPods) unstable(name string) bool { return g[name].unstable }

// revisionInEffect returns the revision of this cluster's announcement that the remote
// cluster has in effect, if it did not accept the last one.
func (g gatewayPods) revisionInEffect(p *v1alpha1.Peering) (revision int64) {
	for _, name := range g.names(p) {
		if report := g[name].report; report != nil {
			revision = max(revision, report.RevisionInEffect)
		}
	}
	return revision
}

func (g gatewayPods) shaken(name string) bool {
	report := g[name].report
	return report != nil && g.ready(name) && slices.ContainsFunc(report.Links, func(l v1alpha1.LinkStatus) bool { return l.LastHandshake != nil })
}

// linksUp returns the links that are up, of gateways whose pod is ready: the last report of
// a stopped gateway is void.
func (g gatewayPods) linksUp(p *v1alpha1.Peering) (up []v1alpha1.LinkStatus) {
	for _, name := range g.names(p) {
		if report := g[name].report; report != nil && g.ready(name) && !g.unstable(name) {
			for _, l := range report.Links {
				if l.Up {
					up = append(up, l)
				}
			}
		}
	}
	return up
}

// merge returns copies of Peerings whose status includes what their gateways report. What a
// gateway reported earlier stays while its pod is replaced; its addresses do not, because nodes
// accept overlay packets from them, and another pod may get them.
//
// A cluster ID stays with the Peering that has it in its status; of several that announce an
// ID for the first time, the oldest gets it. The status of the others has no ID.
func merge(peerings []*v1alpha1.Peering, n *network.Network, pods gatewayPods, now time.Time) (merged []*v1alpha1.Peering) {
	holders := peering.HoldersOf(n.ClusterID, peerings)
	for _, p := range client.OldestFirst(peerings) {
		m := p.DeepCopy()
		m.Status.Gateways = nil
		var announced []v1alpha1.Announcement
		for _, name := range pods.names(p) {
			g := v1alpha1.GatewayStatus{Name: name}
			if i := slices.IndexFunc(p.Status.Gateways, func(was v1alpha1.GatewayStatus) bool { return was.Name == name }); i >= 0 {
				g = *p.Status.Gateways[i].DeepCopy()
			}
			pod := pods[name]
			g.LinkUp, g.PodAddresses = pod.linkUp(), nil
			if pod.Pod != nil {
				placed(&g, pod.Pod)
			}
			if pod.report != nil {
				reported(&g, p, pod.report, now)
				if pod.report.Announcement != nil {
					announced = append(announced, *pod.report.Announcement)
				}
			}
			m.Status.Gateways = append(m.Status.Gateways, g)
		}
		m.Status.Announcement = peering.Latest(p, holders, announced, now).DeepCopy()
		m.Status.ClusterID = holders.Hold(p, clusterIDOf(m))
		merged = append(merged, m)
	}
	return merged
}

func clusterIDOf(p *v1alpha1.Peering) v1alpha1.ClusterID {
	id := cmp.Or(p.Spec.ClusterID, p.Status.ClusterID)
	if a := p.Status.Announcement; id == "" && a != nil {
		id = a.ClusterID
	}
	return id
}

// placed sets the node and the addresses of a gateway, as its kubelet reports them.
func placed(g *v1alpha1.GatewayStatus, pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		g.Node = pod.Spec.NodeName
	}
	g.PodAddresses = cidrs.IPs(addressesOfPod(pod))
}

// reported sets the keys and the MTU of a gateway. A key of a generation that the Peering
// does not request yet is ignored.
func reported(g *v1alpha1.GatewayStatus, p *v1alpha1.Peering, r *v1alpha1.GatewayReportStatus, now time.Time) {
	g.MTU = r.MTU
	if r.PublicKey != "" && r.KeyGeneration <= workload.Generation(p) {
		if g.KeySince == nil || g.PublicKey != r.PublicKey {
			g.KeySince = new(metav1.NewTime(now.Truncate(time.Second)))
		}
		g.PublicKey, g.KeyGeneration, g.NextPublicKey = r.PublicKey, r.KeyGeneration, r.NextPublicKey
	}
}
