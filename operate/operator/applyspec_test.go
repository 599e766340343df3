package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestPrivateRangesAreAcceptedAndPublicOnesThatAreNamed(t *testing.T) {
	got := accepted("10.0.0.0/16", "fd00:10::/48", "fd00:10:0:8000::/56", "2001:db8::/32", "198.51.100.0/24", "nonsense")
	want := append(slices.Clone(private), "2001::/16", "198.51.100.0/24")
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestT7_PublicRangesOfARemoteClusterAreNamedAndNeedAConfirmation(t *testing.T) {
	ranges := []v1alpha1.CIDR{"10.0.0.0/16", "8.8.8.0/24", "172.16.0.0/12", "192.168.7.0/24", "100.64.0.0/10", "fc00:1::/32", "fd00:10::/48",
		"10.0.0.0/7", "172.32.0.0/16", "100.128.0.0/9", "2001:db8::/32", "fe00::/7", "nonsense"}
	err := Cluster{Name: "context b"}.checkPrivate("evil", ranges, false)
	const want = "context b: cluster evil has CIDRs that are not private: 8.8.8.0/24, 10.0.0.0/7, 172.32.0.0/16, 100.128.0.0/9, 2001:db8::/32, fe00::/7, nonsense; " +
		"if these are the addresses of its pods, nodes and other hosts, add --yes"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := (Cluster{}).checkPrivate("evil", ranges, true); err != nil {
		t.Errorf("confirmed: %v", err)
	}
	if err := (Cluster{}).checkPrivate("b", ranges[2:7], false); err != nil {
		t.Errorf("private ones: %v", err)
	}
}

func TestPeersFollowTheGatewaysAndKeepWhatElseIsSaidOfThem(t *testing.T) {
	now := []v1alpha1.Peer{
		{Name: "a-0", PublicKey: "old", Endpoint: "old:1", PresharedKeySecretName: "psk", NotAfter: &metav1.Time{Time: noon}},
		{Name: "a-9", PublicKey: "gone"}, {Name: invitePeer, PublicKey: "temporary"},
	}
	got := asPeers([]v1alpha1.GatewayStatus{
		{Name: "a-0", PublicKey: "new", Endpoints: []v1alpha1.Endpoint{"new:1", "new:2"}}, {Name: "a-1", PublicKey: "other"},
	}, now)
	want := []v1alpha1.Peer{{Name: "a-0", PublicKey: "new", Endpoint: "new:1", PresharedKeySecretName: "psk"}, {Name: "a-1", PublicKey: "other"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestThePeeringOfAClusterIsFoundWhateverItIsCalled(t *testing.T) {
	all := []v1alpha1.Peering{
		{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Spec: v1alpha1.PeeringSpec{ClusterID: "b"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "learned"}, Status: v1alpha1.PeeringStatus{ClusterID: "c"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "open"}},
	}
	for _, c := range []struct {
		with         v1alpha1.ClusterID
		wished, name string
		there        bool
		says         string
	}{
		{"b", "", "prod", true, ""},
		{"b", "prod", "prod", true, ""},
		{"b", "other", "", false, "context a: already joined to cluster b by Peering prod; remove --name"},
		{"c", "", "learned", true, ""},
		{"d", "", "d", false, ""},
		{"d", "open", "open", true, ""},
		{"d", "prod", "", false, "Peering prod is with cluster b, not with d; choose another name with --name"},
		{v1alpha1.ClusterID(strings.Repeat("d", 41)), "", "", false, "up to 40 lower-case letters, digits and '-', beginning with a letter and ending with a letter or digit; choose another with --name"},
		{"d", "Not-This", "", false, `"Not-This" is not a valid name of a Peering`},
	} {
		name, p, err := findPeering(Cluster{Name: "context a"}, all, c.with, c.wished, "--name")
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s as %q: says %v, and should say %q", c.with, c.wished, err, c.says)
			}
			continue
		}
		if err != nil || name != c.name || (p != nil) != c.there {
			t.Errorf("%s as %q: %s, %v, %v", c.with, c.wished, name, p != nil, err)
		}
	}
}

func TestTheOtherClusterNeedsPublicDataAlone(t *testing.T) {
	o := load(t, "testdata/ready.yaml")
	p := &o.peerings[0]
	gateways, missing := readyGateways(p)
	if missing != "" {
		t.Fatal(missing)
	}
	text, err := yaml.Marshal(forRemote(o.network, p, gateways))
	must(t, err)
	golden(t, "testdata/for-remote.golden.yaml", string(text))
}

func TestEveryClusterIDGivesANameForItsPeering(t *testing.T) {
	for id, want := range map[v1alpha1.ClusterID]string{
		"b":  "b",
		"1b": "cluster-1b",
		v1alpha1.ClusterID("b" + strings.Repeat("1", 62)):         "b" + strings.Repeat("1", 39),
		v1alpha1.ClusterID(strings.Repeat("9", 63)):               "cluster-" + strings.Repeat("9", 32),
		v1alpha1.ClusterID(strings.Repeat("b", 38) + "--" + "b1"): strings.Repeat("b", 38),
	} {
		if got := nameFor(id); got != want || CheckName(got) != nil {
			t.Errorf("%s: %s, want %s, a valid name: %v", id, got, want, CheckName(got))
		}
	}
}

func TestAGatewayThatIsNotThereYetIsNamed(t *testing.T) {
	o := load(t, "testdata/ready.yaml")
	p := &o.peerings[0]
	p.Status.Gateways[1].Endpoints = nil
	if _, missing := readyGateways(p); !strings.Contains(missing, "gateway prod-b-1 has no endpoint yet; check that its Service of type NodePort") {
		t.Errorf("says %q", missing)
	}
	p.Status.LoadBalancer = "aws"
	if _, missing := readyGateways(p); !strings.HasSuffix(missing, "; a load balancer controller of aws must run, whose annotations for UDP the Service has") {
		t.Errorf("says %q", missing)
	}
	p.Status.Gateways[1].PublicKey = ""
	if _, missing := readyGateways(p); !strings.Contains(missing, "gateway prod-b-1 has not reported its public key") {
		t.Errorf("says %q", missing)
	}
	p.Spec.Gateway.Replicas = 3
	if _, missing := readyGateways(p); !strings.Contains(missing, "gateway prod-b-2 has not reported its public key") {
		t.Errorf("says %q", missing)
	}
}

func TestAGatewayWithoutANodeIsNotWaitedForIfThereIsAnother(t *testing.T) {
	o := load(t, "testdata/ready.yaml")
	p := &o.peerings[0]
	p.Status.Gateways[1].PublicKey, p.Status.Gateways[1].Endpoints = "", nil
	p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionGatewaysUp, Status: metav1.ConditionFalse, ObservedGeneration: p.Generation,
		Reason: v1alpha1.ReasonUnschedulable, Message: "1 of 2 gateways have a link: gateway prod-b-1 has no node"})
	if gateways, missing := readyGateways(p); len(gateways) != 1 || missing != "" {
		t.Errorf("%d gateways, missing: %q", len(gateways), missing)
	}
	p.Status.Gateways[0].LinkUp = true
	if s := gatewaysStage(p); s.State != Pending || s.Message != "1 of 2 gateways have a link: gateway prod-b-1 has no node" {
		t.Errorf("the stage is %+v", s)
	}
	p.Status.Gateways[0].Endpoints = nil
	if _, missing := readyGateways(p); !strings.Contains(missing, "gateway prod-b-0 has no endpoint yet") {
		t.Errorf("says %q", missing)
	}
}
