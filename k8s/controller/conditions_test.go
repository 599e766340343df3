package controller

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/controller/allocation"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/controller/condition"
	"strait.dev/strait/k8s/controller/network"
)

// scene is a peering with all around it, and what a pass makes of it at some time.
type scene struct {
	peering  *v1alpha1.Peering
	pods     gatewayPods
	services []*corev1.Service
	nodes    []*v1alpha1.NodeAttachment
	network  *network.Network
	inForce  []claims.Spec
	problem  string
	now      time.Time
}

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

const (
	keyThere v1alpha1.PublicKey = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="
	keyHere  v1alpha1.PublicKey = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
)

// working is a working peering: one gateway, one link, two nodes.
func working() *scene {
	s := &scene{peering: &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "u", Generation: 3}}, now: noon, network: &network.Network{Ranges: network.Ranges{ClusterID: "a"}}}
	s.peering.Spec = v1alpha1.PeeringSpec{
		ClusterID: "b", Prefixes: v1alpha1.RemotePrefixes{{CIDR: "10.1.0.0/16"}}, AcceptPrefixes: []v1alpha1.AcceptedCIDR{"10.1.0.0/16"},
		Peers:   []v1alpha1.Peer{{Name: "a-0", PublicKey: keyThere, Endpoint: "gw.example:51840"}},
		Gateway: v1alpha1.GatewaySpec{Replicas: 1},
	}
	s.peering.Status = v1alpha1.PeeringStatus{
		Announcement: &v1alpha1.Announcement{Revision: 2, HeardAt: &metav1.MicroTime{Time: noon}, ClusterID: "b", Prefixes: []v1alpha1.CIDR{"10.1.0.0/16"},
			Gateways: []v1alpha1.AnnouncedGateway{{Name: "a-0", PublicKeys: []v1alpha1.PublicKey{keyThere}}}},
	}
	s.pods = gatewayPods{"b-0": {Pod: aGatewayPod("b-0", corev1.ConditionTrue), report: &v1alpha1.GatewayReportStatus{
		Peering: "b", PublicKey: keyHere, MTU: 1400,
		Links: []v1alpha1.LinkStatus{{Remote: "a-0", Up: true, PathMTU: 1400, Endpoint: "192.0.2.1:51840",
			RTT: &metav1.Duration{Duration: time.Millisecond}, LastHandshake: &metav1.Time{Time: noon}}},
	}}}
	for _, name := range []string{"node-1", "node-2"} {
		s.nodes = append(s.nodes, &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: v1alpha1.NodeAttachmentStatus{Gateways: []v1alpha1.NodeGateway{{Name: "b-0", VNI: 257, Ready: true}}}})
	}
	owner := v1alpha1.ClaimOwner{Kind: allocation.KindPeering, Name: "b"}
	s.inForce = []claims.Spec{mappedTo(owner, "10.1.0.0/16", "10.71.0.0/16"),
		{Prefix: "10.80.255.1/32", Pool: v1alpha1.PoolInternal, Owner: v1alpha1.ClaimOwner{Kind: allocation.KindGateway, Name: "b-0"}}}
	return s
}

func aGatewayPod(name string, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "strait-gateways"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
}

// unscheduled is the condition of a pod that no node has room for.
var unscheduled = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
	Message: "0/1 nodes are available: Insufficient memory."}}

// second adds a second gateway, without links.
func (s *scene) second(ready corev1.ConditionStatus) *corev1.Pod {
	pod := aGatewayPod("b-1", ready)
	pod.Spec.NodeName = "node-2"
	s.peering.Spec.Gateway.Replicas = 2
	s.pods["b-1"] = gatewayPod{Pod: pod, report: &v1alpha1.GatewayReportStatus{}}
	return pod
}

// pass is what one pass makes of the status, which the peering has afterwards.
func (s *scene) pass() v1alpha1.PeeringStatus {
	s.network.Internal, _ = cidrs.Parse([]string{"10.80.0.0/16"})
	merged := merge([]*v1alpha1.Peering{s.peering}, s.network, s.pods, s.now)
	p := newPlan(nil, s.network, nil, merged, nil, s.now)
	p.views = map[string][]allocation.Outcome{}
	for _, one := range p.remotes["b"].Ranges() {
		p.views["b"] = append(p.views["b"], allocation.Outcome{CIDR: one.CIDR, Reason: "it is taken"})
	}
	is := newReport(p, s.pods, s.inForce, s.services, s.nodes).status(merged[0], workloadState{problem: s.problem, updated: condition.New(metav1.ConditionTrue, "Complete", "updated")})
	s.peering.Status = *is.DeepCopy()
	return is
}

// report is what gateway b-0 reports.
func (s *scene) report() *v1alpha1.GatewayReportStatus { return s.pods["b-0"].report }

// says is a condition, like "True LinkUp 1 link is up".
func says(s v1alpha1.PeeringStatus, kind string) string {
	c := meta.FindStatusCondition(s.Conditions, kind)
	if c == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
}

func TestEachConditionSaysWhatIsMissingAndWhatToDo(t *testing.T) {
	link := func(s *scene) *v1alpha1.LinkStatus { return &s.report().Links[0] }
	for _, row := range []struct {
		name   string
		change func(*scene)
		kind   string
		want   string // the beginning
	}{
		{"a working peering", func(*scene) {}, "Ready", "True Healthy packets pass: 1 link is up; 2 of 2 nodes send to a gateway that is up"},
		{"a working peering", func(*scene) {}, "Announced", "True Granted"},
		{"a working peering", func(*scene) {}, "TunnelUp", "True LinkUp 1 link is up"},
		{"a working peering", func(*scene) {}, "Routed", "True RoutedByNodes 2 of 2 nodes send to a gateway that is up"},
		{"no node helpers", func(s *scene) { s.network.WithoutNodes, s.nodes = true, nil }, "Routed",
			"True RoutedByGateways this cluster has no node helpers: gateways carry the connections to imported Services; 1 of 1 have a link"},
		{"no node helpers", func(s *scene) { s.network.WithoutNodes, s.nodes = true, nil }, "Ready", "True Healthy"},
		{"no node helpers", func(s *scene) { s.network.WithoutNodes, s.nodes = true, nil }, "GatewaysUp", "True AllUp 1 of 1 gateways have a link"},
		{"no node helpers and no link", func(s *scene) { s.network.WithoutNodes, s.nodes, link(s).Up = true, nil, false }, "Routed", "False NoLink"},
		{"a working peering", func(*scene) {}, "PathMTU", "True FullSize packets of 1400 bytes pass"},
		{"a working peering", func(*scene) {}, "CIDRConflict", "False NoConflict"},

		{"a working peering", func(*scene) {}, "GatewaysUp", "True AllUp 1 of 1 gateways have a link"},
		{"a second gateway without a pod", func(s *scene) { s.peering.Spec.Gateway.Replicas = 2 }, "GatewaysUp",
			"False NoPod 1 of 2 gateways have a link: gateway b-1 has no pod yet"},
		{"a second gateway without a pod", func(s *scene) { s.peering.Spec.Gateway.Replicas = 2 }, "Ready", "True Healthy"},
		{"a second gateway without a node", func(s *scene) { s.second(corev1.ConditionFalse).Status.Conditions = unscheduled }, "GatewaysUp",
			"False Unschedulable 1 of 2 gateways have a link: gateway b-1 has no node: 0/1 nodes are available: Insufficient memory.; set spec.gateway.replicas to a number"},
		{"a second gateway that does not start", func(s *scene) { s.second(corev1.ConditionFalse) }, "GatewaysUp",
			"False NotRunning 1 of 2 gateways have a link: gateway b-1 is not ready; run `kubectl describe pod b-1 --namespace strait-gateways`"},
		{"a second gateway without a link", func(s *scene) { s.second(corev1.ConditionTrue) }, "GatewaysUp",
			"False NoLink 1 of 2 gateways have a link: gateway b-1 has no link"},
		{"a second gateway that ends", func(s *scene) { s.second(corev1.ConditionTrue).DeletionTimestamp = &metav1.Time{Time: noon} }, "GatewaysUp",
			"False Ending 1 of 2 gateways have a link: gateway b-1 ends on node node-2"},

		{"not announced", func(s *scene) { s.peering.Status.Announcement = nil }, "Announced", "Unknown NotAnnounced"},
		{"not announced", func(s *scene) { s.peering.Status.Announcement = nil }, "Ready", "True Healthy"},
		{"refused here", func(s *scene) { s.report().Refused = "pods: 10.9.0.0/16 is not granted" }, "Announced",
			"False Refused gateway b-0 rejected the announcement of the remote cluster: pods: 10.9.0.0/16 is not granted; grant it in spec.acceptPrefixes of this Peering, or change it in the remote cluster"},
		{"refused here", func(s *scene) { s.report().Refused = "pods: 10.9.0.0/16 is not granted" }, "Ready", "False Refused gateway b-0 rejected"},
		{"another version there", func(s *scene) {
			s.report().Skew = "the far end speaks versions [2] of the control protocol, this gateway [1]: upgrade this gateway"
		}, "Announced",
			"False VersionSkew gateway b-0 and the remote cluster cannot exchange announcements: the far end speaks versions [2] of the control protocol, this gateway [1]: upgrade this gateway; install the same version of Strait in both clusters"},
		{"refused there", func(s *scene) { s.report().Refusal = "pods: 10.0.0.0/16 is not granted" }, "Announced",
			"False Refused the remote cluster rejected the announcement of gateway b-0: pods: 10.0.0.0/16 is not granted; grant it in the remote cluster, or announce less"},
		{"refused there before anything was received", func(s *scene) {
			s.peering.Status.Announcement, s.report().Refusal = nil, "no"
		}, "Announced", "False Refused the remote cluster rejected"},
		{"a grant taken back", func(s *scene) { s.peering.Spec.Prefixes, s.peering.Spec.AcceptPrefixes = nil, nil }, "Announced",
			"False Refused the announcement of the remote cluster is no longer granted: pods: 10.1.0.0/16 is not granted"},
		{"an old announcement that was granted once", func(s *scene) {
			s.peering.Spec.Gateway.Replicas = 2
			old := s.peering.Status.Announcement.DeepCopy()
			old.Revision, old.HeardAt, old.Prefixes = 1, &metav1.MicroTime{Time: noon.Add(-time.Hour)}, []v1alpha1.CIDR{"10.9.0.0/16"}
			s.pods["b-1"] = gatewayPod{Pod: aGatewayPod("b-1", corev1.ConditionTrue), report: &v1alpha1.GatewayReportStatus{Announcement: old}}
		}, "Announced", "True Granted"},
		{"refused by a gateway that is gone", func(s *scene) {
			s.pods["b-7"] = gatewayPod{Pod: nil, report: &v1alpha1.GatewayReportStatus{Refused: "long ago"}}
		}, "Announced", "True Granted"},

		{"a range that cannot be seen", func(s *scene) { s.inForce = s.inForce[1:] }, "CIDRConflict", "True NotMapped 10.1.0.0/16 is not mapped: it is taken"},
		{"a range that cannot be seen", func(s *scene) { s.inForce = s.inForce[1:] }, "Routed", "False NotMapped 10.1.0.0/16 is not mapped in this cluster; see the condition CIDRConflict"},
		{"a range that cannot be seen", func(s *scene) { s.inForce = s.inForce[1:] }, "Ready", "False NotMapped 10.1.0.0/16 is not mapped: it is taken"},

		{"no peers", func(s *scene) {
			s.peering.Spec.Peers, s.peering.Status.Announcement, s.report().Links = nil, nil, nil
		}, "TunnelUp",
			"False NoPeers no gateway of the remote cluster is known; add its gateways to spec.peers"},
		{"an invite that ended", func(s *scene) {
			s.peering.Status.Announcement, s.report().Links = nil, nil
			s.peering.Spec.Peers[0].NotAfter = &metav1.Time{Time: noon}
		}, "TunnelUp", "False NoPeers the invite has expired; create a new one"},
		{"no endpoint", func(s *scene) { s.peering.Spec.Peers[0].Endpoint, link(s).Up = "", false }, "TunnelUp",
			"False NoEndpoint neither cluster accepts connections; set spec.gateway.service.type to NodePort or LoadBalancer in one of them"},
		{"no load balancer yet", func(s *scene) {
			s.peering.Spec.Peers[0].Endpoint, link(s).Up, s.peering.Spec.Gateway.Service.Type = "", false, corev1.ServiceTypeLoadBalancer
		}, "TunnelUp", "False NoEndpoint the LoadBalancer Services of the gateways have no address yet"},
		{"no handshake", func(s *scene) { link(s).Up, link(s).LastHandshake = false, nil }, "TunnelUp",
			"False NoHandshake no gateway of the remote cluster has answered yet; check that UDP passes to gw.example:51840, and that spec.peers of the remote cluster's Peering has"},
		{"a handshake alone", func(s *scene) { link(s).Up = false }, "TunnelUp", "False NoAnswer the handshake succeeds, but probes are not answered"},
		{"no link at all", func(s *scene) { s.report().Links = nil }, "Ready", "False NoHandshake no gateway of the remote cluster has answered yet"},

		{"no pod", func(s *scene) { s.pods = nil }, "Ready", "False NoGatewayReady gateway b-0 has no pod yet"},
		{"no pod, and a link that was up", func(s *scene) { s.pods = nil }, "TunnelUp", "False NoGatewayReady"},
		{"a pod that is not ready", func(s *scene) {
			s.pods["b-0"] = gatewayPod{Pod: aGatewayPod("b-0", corev1.ConditionFalse), report: s.report()}
		}, "Ready",
			"False NoGatewayReady the pod of gateway b-0 is not ready; run `kubectl describe pod b-0 --namespace strait-gateways` and check its log"},
		{"a pod that ends", func(s *scene) { s.pods["b-0"].DeletionTimestamp = &metav1.Time{Time: noon} }, "TunnelUp", "False NoGatewayReady"},
		{"nothing could be made", func(s *scene) { s.pods, s.problem = nil, "Service b-0: port taken; choose another" }, "Ready",
			"False GatewaysNotCreated Service b-0: port taken; choose another"},
		{"something could not be made, and all works", func(s *scene) { s.problem = "PodDisruptionBudget b: quota; raise it" }, "Ready",
			"True Healthy packets pass, but PodDisruptionBudget b: quota; raise it"},

		{"no node", func(s *scene) { s.nodes = nil }, "Routed", "False NoNode 0 of 0 nodes send to a gateway that is up; see the condition NodesAttached of ClusterNetwork default"},
		{"one node of two", func(s *scene) {
			s.nodes[1].Status.Gateways[0] = v1alpha1.NodeGateway{Name: "b-0", Message: "no answer over geneve; open UDP 6091"}
		}, "Routed", "True RoutedByNodes 1 of 2 nodes send to a gateway that is up; node-2: no answer over geneve; open UDP 6091"},
		{"silent helpers", func(s *scene) {
			for i := range 6 {
				s.nodes = append(s.nodes, &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", 3+i)}})
			}
		}, "Routed", "True RoutedByNodes 2 of 8 nodes send to a gateway that is up; node-3: its node helper has not reported this gateway yet; check that `strait node` runs on the node; node-4: its node helper has not reported this gateway yet; check that `strait node` runs on the node; node-5: its node helper has not reported this gateway yet; check that `strait node` runs on the node; and 3 more"},
		{"all nodes refuse", func(s *scene) { s.nodes[0].Status.Gateways, s.nodes[1].Status.Gateways = nil, nil }, "Ready", "False NoNode 0 of 2 nodes send"},
		{"nodes confirm a gateway without link", func(s *scene) { link(s).Up = false }, "Routed", "False NoLink"},
		{"no ranges", func(s *scene) {
			s.peering.Spec.Prefixes, s.peering.Status.Announcement.Prefixes = nil, nil
		}, "Routed", "False NoRanges no CIDR of the remote cluster is known; set its CIDRs in spec.prefixes"},

		{"nodes that refuse packets", func(s *scene) {
			s.nodes[0].Status.Gateways[0].Refused = []string{"node_not_granted"}
			s.nodes[1].Status.Gateways[0].Refused = []string{"destination_not_granted", "node_not_granted"}
		}, "Routed", "True RoutedByNodes 2 of 2 nodes send to a gateway that is up; within the last hour, 2 of 2 nodes refused packets from its gateways: destination_not_granted, node_not_granted (STRAIT-N016)"},
		{"a node that routes the range itself", func(s *scene) {
			s.nodes[0].Status.RouteConflicts = []v1alpha1.RouteConflict{{CIDR: "10.71.0.0/16", Destination: "route to 10.71.2.0/24 dev eth1 table 254"}}
			s.nodes[1].Status.RouteConflicts = []v1alpha1.RouteConflict{{CIDR: "10.71.0.0/16", Destination: "route to 10.0.0.0/8 dev wg0 table 254", Refused: true}}
		}, "Routed", "False RouteRefused 10.71.0.0/16 does not go to gateways on 1 of 2 nodes, because they route it themselves: node-2 has route to 10.0.0.0/8 dev wg0 table 254; set seenAs of 10.1.0.0/16 to another CIDR, or remove the other route (STRAIT-N013)"},
		{"a node whose destination is taken over", func(s *scene) {
			s.nodes[0].Status.RouteConflicts = []v1alpha1.RouteConflict{{CIDR: "10.71.0.0/16", Destination: "route to 10.71.2.0/24 dev eth1 table 254"}}
		}, "Ready", "True Healthy packets pass: 1 link is up; 2 of 2 nodes send to a gateway that is up; on 1 of 2 nodes, 10.71.0.0/16 takes over a destination that they got later: node-1 has route to 10.71.2.0/24 dev eth1 table 254 (STRAIT-N013)"},
		{"a node that reports several destinations", func(s *scene) {
			for i := range 9 {
				s.nodes[1].Status.RouteConflicts = append(s.nodes[1].Status.RouteConflicts, v1alpha1.RouteConflict{CIDR: "10.71.0.0/16", Destination: fmt.Sprint("route ", i), Refused: true})
			}
		}, "Routed", "False RouteRefused 10.71.0.0/16 does not go to gateways on 1 of 2 nodes, because they route it themselves: node-2 has route 0;"},
		{"a conflict of another peering", func(s *scene) {
			s.nodes[0].Status.RouteConflicts = []v1alpha1.RouteConflict{{CIDR: "10.72.0.0/16", Destination: "route to 10.72.0.0/24 dev eth1 table 254", Refused: true}}
		}, "Routed", "True RoutedByNodes 2 of 2 nodes send to a gateway that is up"},

		{"no link", func(s *scene) { link(s).Up = false }, "PathMTU", "Unknown NoLink"},
		{"not measured yet", func(s *scene) { link(s).PathMTU = 0 }, "PathMTU", "Unknown Measuring"},
		{"not measured yet", func(s *scene) { link(s).PathMTU = 0 }, "Ready", "False Measuring it is not known yet whether packets of 1400 bytes"},
	} {
		t.Run(row.name+"/"+row.kind, func(t *testing.T) {
			s := working()
			row.change(s)
			is := s.pass()
			if got := says(is, row.kind); !strings.HasPrefix(got, row.want) {
				t.Errorf("got\n%s\nwant\n%s", got, row.want)
			}
			for _, c := range is.Conditions {
				if c.ObservedGeneration != 3 || c.Reason == "" || c.Message == "" {
					t.Errorf("incomplete: %+v", c)
				}
			}
			if len(is.Conditions) != len(peeringConditions) {
				t.Errorf("%d conditions", len(is.Conditions))
			}
		})
	}
}

func TestALostTunnelSaysSinceWhen(t *testing.T) {
	s := working()
	s.pass()
	s.report().Links[0].Up = false
	s.now = noon.Add(time.Minute)
	const want = "False Lost no gateway of the remote cluster has answered since 2026-06-01T12:01:00Z; check that its gateways run, and that UDP still passes to gw.example:51840"
	for _, later := range []time.Duration{time.Minute, time.Hour} {
		s.now = noon.Add(later)
		if got := says(s.pass(), "TunnelUp"); got != want {
			t.Errorf("after %v: %s", later, got)
		}
	}
	s.report().Links = nil // the gateway started anew
	if got := says(s.pass(), "TunnelUp"); got != want {
		t.Error(got)
	}
	if got := says(s.pass(), "Ready"); got != want {
		t.Error(got)
	}
}

func TestASmallerPathIsToldWhenTheLinkHasSettled(t *testing.T) {
	s := working()
	s.report().Links[0].PathMTU = 0
	for _, step := range []struct {
		after   time.Duration
		pathMTU int32
		want    string
	}{
		{0, 0, "Unknown Measuring"},
		{29 * time.Second, 0, "Unknown Measuring"},
		{30 * time.Second, 0, "False Smaller packets of 1400 bytes do not pass, nor do smaller ones that were tried; allow ICMP and fragments between the gateways, or reduce spec.overlay.mtu of ClusterNetwork default in both clusters"},
		{31 * time.Second, 1280, "False Smaller packets of 1400 bytes do not pass, the largest that did has 1280; set spec.overlay.mtu of ClusterNetwork default to 1280 in both clusters, or allow"},
		{40 * time.Second, 1400, "True FullSize"},
		{50 * time.Second, 0, "Unknown Measuring"}, // measured anew
		{79 * time.Second, 0, "Unknown Measuring"},
		{80 * time.Second, 0, "False Smaller"},
		{81 * time.Second, 1500, "True FullSize"},
	} {
		s.now, s.report().Links[0].PathMTU = noon.Add(step.after), step.pathMTU
		if got := says(s.pass(), "PathMTU"); !strings.HasPrefix(got, step.want) {
			t.Errorf("after %v: %s, want %s", step.after, got, step.want)
		}
	}
}

func TestMeasurementsChangeNothingThatNodesWatchAndWakeNoPass(t *testing.T) {
	s := working()
	first := s.pass()
	reported := func() *v1alpha1.GatewayReport { return &v1alpha1.GatewayReport{Status: *s.report().DeepCopy()} }
	before := reported()
	s.now = noon.Add(time.Hour)
	l := &s.report().Links[0]
	l.RTT, l.LastHandshake, l.Endpoint = &metav1.Duration{Duration: time.Second}, &metav1.Time{Time: s.now}, "192.0.2.9:1"
	s.report().Summary = v1alpha1.GatewaySummary{LinksUp: "1/1", RTT: l.RTT, LastHandshake: l.LastHandshake, Endpoint: l.Endpoint}
	if got := s.pass(); !reflect.DeepEqual(got, first) {
		t.Errorf("the status became\n%+v\nwas\n%+v", got, first)
	}
	if !sameReport(before, reported()) {
		t.Error("a pass follows")
	}
	for name, change := range map[string]func(*v1alpha1.GatewayReport){
		"a link":            func(r *v1alpha1.GatewayReport) { r.Status.Links[0].Up = false },
		"the path MTU":      func(r *v1alpha1.GatewayReport) { r.Status.Links[0].PathMTU = 1300 },
		"no handshake":      func(r *v1alpha1.GatewayReport) { r.Status.Links[0].LastHandshake = nil },
		"an announcement":   func(r *v1alpha1.GatewayReport) { r.Status.Announcement = new(v1alpha1.Announcement) },
		"a refusal":         func(r *v1alpha1.GatewayReport) { r.Status.Refused = "no" },
		"an MTU":            func(r *v1alpha1.GatewayReport) { r.Status.MTU = 1300 },
		"a key":             func(r *v1alpha1.GatewayReport) { r.Status.KeyGeneration = 2 },
		"a mapping":         func(r *v1alpha1.GatewayReport) { r.Status.Mappings = []v1alpha1.ServedMapping{{Name: "vm"}} },
		"the pod behind it": func(r *v1alpha1.GatewayReport) { r.OwnerReferences = []metav1.OwnerReference{{UID: "v"}} },
	} {
		changed := reported()
		change(changed)
		if sameReport(reported(), changed) {
			t.Errorf("%s: no pass follows", name)
		}
	}
	changed := s.peering.DeepCopy()
	changed.Status.Gateways[0].LinkUp = false
	if samePeering(s.peering, changed) {
		t.Error("a status that another controller wrote wakes no pass")
	}
}

func TestOnlyWhoAnswersWakesAPassOfAttachments(t *testing.T) {
	was := &v1alpha1.NodeAttachment{Status: v1alpha1.NodeAttachmentStatus{Gateways: []v1alpha1.NodeGateway{{Name: "b-0", Ready: true}}}}
	is := was.DeepCopy()
	is.Status.Gateways[0].Message, is.Status.Encapsulations = "falls back", []v1alpha1.Encapsulation{"vxlan"}
	if !sameAnswers(was, is) {
		t.Error("a message wakes a pass")
	}
	conflict := was.DeepCopy()
	conflict.Status.RouteConflicts = []v1alpha1.RouteConflict{{CIDR: "10.71.0.0/16"}}
	if sameAnswers(was, conflict) {
		t.Error("a conflict of routes wakes none")
	}
	is.Status.Gateways[0].Ready = false
	if sameAnswers(was, is) {
		t.Error("a gateway that does not answer wakes none")
	}
}

func TestTheStatusMTUIsTheSmallestOfGatewaysThatAreReady(t *testing.T) {
	s := working()
	s.peering.Spec.Gateway.Replicas = 3
	s.pods["b-1"] = gatewayPod{Pod: aGatewayPod("b-1", corev1.ConditionTrue), report: &v1alpha1.GatewayReportStatus{MTU: 1380}}
	s.pods["b-2"] = gatewayPod{Pod: aGatewayPod("b-2", corev1.ConditionFalse), report: &v1alpha1.GatewayReportStatus{MTU: 1300}}
	if got := s.pass().MTU; got != 1380 {
		t.Errorf("got %d", got)
	}
}

// The pass of a large cluster has to be cheap: whatever becomes ready wakes one.
func BenchmarkReport(b *testing.B) {
	s := working()
	for i := range 5000 {
		s.nodes = append(s.nodes, &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n-", i)},
			Status: v1alpha1.NodeAttachmentStatus{Gateways: []v1alpha1.NodeGateway{{Name: "b-0", Ready: i%2 == 0}}}})
	}
	for b.Loop() {
		s.pass()
	}
}

// mappedTo returns the claim for a mapping of a CIDR.
func mappedTo(owner v1alpha1.ClaimOwner, cidr, seenAs v1alpha1.CIDR) claims.Spec {
	return claims.Spec{Prefix: seenAs, Pool: v1alpha1.PoolRemap, Owner: owner, For: cidr}
}
