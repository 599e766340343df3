package workload

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller/values"
)

var update = flag.Bool("update", false, "write the golden files anew")

func inGateways(template *corev1.PodTemplateSpec) Gateways {
	return Gateways{Namespace: "strait-gateways", ServiceAccount: "strait-gateway", Image: "registry.example/strait:v1", Template: template}
}

// wholePeering sets everything that becomes part of an object.
func wholePeering() *v1alpha1.Peering {
	return &v1alpha1.Peering{
		ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "11111111-2222-3333-4444-555555555555"},
		Spec: v1alpha1.PeeringSpec{
			Peers: []v1alpha1.Peer{{Name: "a-0", PresharedKeySecretName: "z-psk"}, {Name: "a-1", PresharedKeySecretName: "a-psk"},
				{Name: "a-2", PresharedKeySecretName: "z-psk"}, {Name: "a-3"}},
			Gateway: v1alpha1.GatewaySpec{
				Replicas: 2, KeyGeneration: 1,
				Service: v1alpha1.GatewayService{Type: corev1.ServiceTypeLoadBalancer, Port: 51841, NodePort: new(int32(30100)),
					Annotations: map[string]string{"example.com/pool": "edge"}, LoadBalancerClass: new("example.com/lb"),
					HealthPort: new(int32(9000)), LoadBalancerSourceRanges: []v1alpha1.CIDR{"198.51.100.0/24"},
					ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
					IPFamilyPolicy:        new(corev1.IPFamilyPolicyPreferDualStack), IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}},
				NodeSelector: map[string]string{"example.com/edge": "true"},
				Tolerations:  []corev1.Toleration{{Key: "example.com/edge", Operator: corev1.TolerationOpExists}},
				Resources:    &v1alpha1.Resources{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
			},
		},
	}
}

// plainPeering says nothing but what the API server sets.
func plainPeering() *v1alpha1.Peering {
	return &v1alpha1.Peering{
		ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "11111111-2222-3333-4444-666666666666"},
		Spec: v1alpha1.PeeringSpec{Gateway: v1alpha1.GatewaySpec{Replicas: 1, KeyGeneration: 1,
			Service: v1alpha1.GatewayService{Type: corev1.ServiceTypeClusterIP, Port: 51840}}},
	}
}

func TestTheObjectsOfAPeering(t *testing.T) {
	template, err := values.ParseTemplate([]byte(fullTemplate))
	if err != nil {
		t.Fatal(err)
	}
	nodes := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("2001:db8::/64")}
	withoutNodes := inGateways(nil)
	withoutNodes.WithoutNodes = true
	for _, c := range []struct {
		golden  string
		g       Gateways
		peering *v1alpha1.Peering
		nodes   []netip.Prefix
	}{
		{"testdata/whole.golden.yaml", inGateways(nil), wholePeering(), nodes},
		{"testdata/plain.golden.yaml", inGateways(nil), plainPeering(), nil},
		{"testdata/template.golden.yaml", inGateways(template), plainPeering(), nodes[:1]},
		{"testdata/withoutnodes.golden.yaml", withoutNodes, plainPeering(), nil},
	} {
		objects := []client.Object{StatefulSet(c.g, c.peering), NetworkPolicy(c.g, c.peering, c.nodes), CiliumNetworkPolicy(c.g, c.peering), DisruptionBudget(c.g, c.peering)}
		for ordinal := range c.peering.Spec.Gateway.Replicas {
			objects = append(objects, Service(c.g, c.peering, ordinal, Provider{}))
		}
		var got bytes.Buffer
		for _, object := range objects {
			got.WriteString("--- # " + reflect.TypeOf(object).Elem().Name() + "\n")
			got.Write(withoutStatus(t, object))
		}
		if *update {
			if err := os.WriteFile(c.golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(c.golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: got\n%s", c.golden, got.Bytes())
		}
	}
}

func withoutStatus(t *testing.T, object any) []byte {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "status")
	if text, err = yaml.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheClusterAssignsTheUIDOfGatewaysWhereItIsTold(t *testing.T) {
	g := inGateways(nil)
	g.AssignedUID = true
	if is := PodTemplate(g, plainPeering()).Spec.SecurityContext; is.RunAsUser != nil || is.RunAsGroup != nil || is.FSGroup != nil {
		t.Errorf("the security context is %+v", is)
	}
}

func TestThePlacementOfAPeeringAddsToThatOfTheInstallation(t *testing.T) {
	template, err := values.ParseTemplate([]byte(`spec:
  nodeSelector: {kubernetes.io/os: linux, example.com/edge: "false"}
  tolerations: [{key: example.com/infra, operator: Exists}]
  affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname}}]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	pod := PodTemplate(inGateways(template), wholePeering()).Spec
	if want := map[string]string{"kubernetes.io/os": "linux", "example.com/edge": "true"}; !maps.Equal(pod.NodeSelector, want) {
		t.Errorf("the node selector is %v, want %v", pod.NodeSelector, want)
	}
	var keys []string
	for _, toleration := range pod.Tolerations {
		keys = append(keys, toleration.Key)
	}
	if want := []string{"example.com/infra", "example.com/edge", corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}; !slices.Equal(keys, want) {
		t.Errorf("the tolerations are of %q, want %q", keys, want)
	}
	if pod.Affinity == nil || pod.Affinity.PodAntiAffinity == nil {
		t.Errorf("the affinity is %v, want that of the installation", pod.Affinity)
	}
	if is := pod.TopologySpreadConstraints; len(is) != 2 || is[0].TopologyKey != corev1.LabelTopologyZone || is[1].TopologyKey != corev1.LabelHostname {
		t.Errorf("the spread is %v, want zones and nodes", is)
	}
}

func TestTheImageOfTheInstallationComesBeforeThatOfItsTemplate(t *testing.T) {
	template, err := values.ParseTemplate([]byte(fullTemplate))
	if err != nil {
		t.Fatal(err)
	}
	g := inGateways(template)
	image := func() string { return containerOf(t, PodTemplate(g, plainPeering())).Image }
	if got := image(); got != "registry.example/strait:v1" {
		t.Errorf("image %s", got)
	}
	g.Image = ""
	if got := image(); got != "registry.example/mirror/strait:v2" || g.Check() != nil {
		t.Errorf("image %s, and a check says %v", got, g.Check())
	}
}

func containerOf(t testing.TB, template corev1.PodTemplateSpec) corev1.Container {
	t.Helper()
	i := slices.IndexFunc(template.Spec.Containers, func(c corev1.Container) bool { return c.Name == gatewayContainer })
	if i < 0 {
		t.Fatal("there is no container gateway")
	}
	return template.Spec.Containers[i]
}

// The strictest of Kubernetes' own standards for pods, as the namespace enforces it.
func TestGatewaysPassTheRestrictedPodSecurityStandard(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	template, err := values.ParseTemplate([]byte(fullTemplate))
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	evaluate := func(pod corev1.PodTemplateSpec) policy.AggregateCheckResult {
		return policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec))
	}
	assigned := inGateways(nil)
	assigned.AssignedUID = true
	for _, g := range []Gateways{inGateways(nil), inGateways(template), assigned} {
		for _, peering := range []*v1alpha1.Peering{wholePeering(), plainPeering()} {
			if result := evaluate(PodTemplate(g, peering)); !result.Allowed {
				t.Errorf("%s: %s", peering.Name, result.ForbiddenDetail())
			}
		}
	}
	loose := PodTemplate(inGateways(nil), plainPeering())
	loose.Spec.SecurityContext, loose.Spec.Containers[0].SecurityContext = nil, nil
	if evaluate(loose).Allowed {
		t.Error("it also allows a pod that is not restricted at all")
	}
}

// checkOurs holds for a pod whatever the template said.
func checkOurs(t testing.TB, template corev1.PodTemplateSpec) {
	t.Helper()
	c := containerOf(t, template)
	if c.SecurityContext == nil || *c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem || c.SecurityContext.Privileged != nil {
		t.Errorf("security context %v", c.SecurityContext)
	}
	if *template.Spec.SecurityContext.RunAsUser != nonRootID {
		t.Errorf("it runs as %v", *template.Spec.SecurityContext.RunAsUser)
	}
	if len(c.Args) == 0 || c.Args[0] != "gateway" || len(c.Command) > 0 || len(c.Ports) != 5 {
		t.Errorf("command %q, arguments %q, ports %v", c.Command, c.Args, c.Ports)
	}
	if template.Labels[PeeringLabel] != "b" || template.Spec.ServiceAccountName != "a" {
		t.Errorf("labels %v, service account %s", template.Labels, template.Spec.ServiceAccountName)
	}
	for _, name := range []string{"STRAIT_PEERING", "POD_NAMESPACE", "POD_NAME", "POD_UID", "POD_IPS", "GOMEMLIMIT"} {
		n := 0
		for _, e := range c.Env {
			if e.Name == name && e.Value != "other" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
	for _, mount := range c.VolumeMounts {
		if strings.HasPrefix(mount.MountPath, keysPath+"/") && (!mount.ReadOnly || mount.SubPath != "") {
			t.Errorf("%s is mounted so that it can be written, or does not change", mount.MountPath)
		}
	}
}

// A pod starts anew when its template changes, and so do tunnels.
func TestTheFirstReplicaStaysWhenASecondComes(t *testing.T) {
	g, one, two := inGateways(nil), plainPeering(), plainPeering()
	two.Spec.Gateway.Replicas = 2
	a, b := StatefulSet(g, one), StatefulSet(g, two)
	if !bytes.Equal(withoutStatus(t, a.Spec.Template), withoutStatus(t, b.Spec.Template)) {
		t.Error("its template is another one")
	}
	two.Spec.Gateway.KeyGeneration = 2
	if !bytes.Equal(withoutStatus(t, a.Spec.Template), withoutStatus(t, StatefulSet(g, two).Spec.Template)) {
		t.Error("with new keys its template is another one")
	}
	for replicas, want := range map[int32]int{1: 2, 2: 2, 3: 4, 4: 4, 5: 8, 8: 8, 9: 16, 16: 16} {
		if got := keyVolumes(replicas); got != want {
			t.Errorf("%d replicas have %d volumes of keys, want %d", replicas, got, want)
		}
	}
}

func TestFramesAreLetInFromWhereNodesSendThem(t *testing.T) {
	nodes := []netip.Prefix{netip.MustParsePrefix("192.0.2.21/32"), netip.MustParsePrefix("192.0.2.22/32")}
	at := func(sources ...v1alpha1.IP) *v1alpha1.NodeAttachment {
		a := new(v1alpha1.NodeAttachment)
		for _, s := range sources {
			a.Status.Gateways = append(a.Status.Gateways, v1alpha1.NodeGateway{Source: s})
		}
		return a
	}
	for want, attachments := range map[string][]*v1alpha1.NodeAttachment{
		"[192.0.2.21/32 192.0.2.22/32]":             {at(""), at()},
		"[10.0.1.1/32 192.0.2.21/32 192.0.2.22/32]": {at("10.0.1.1", ""), at("10.0.1.1", "192.0.2.21")},
		"[192.0.2.20/31 192.0.2.22/32]":             {at("192.0.2.20", "0.0.0.0", "127.0.0.1", "none")},
	} {
		if got := fmt.Sprint(FrameSources(nodes, attachments)); got != want {
			t.Errorf("from %s, want %s", got, want)
		}
	}
}

func TestT6_ANodeOpensTheGatewaysToNoAddressesButItsOwn(t *testing.T) {
	nodes := []netip.Prefix{netip.MustParsePrefix("192.0.2.21/32")}
	victim := &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}, Spec: v1alpha1.NodeAttachmentSpec{
		UnderlayAddresses: []v1alpha1.IP{"192.0.2.22"}, InternalAddresses: []v1alpha1.IP{"10.80.0.12"}, ExternalAddresses: []v1alpha1.IP{"10.70.0.12"}}}
	liar := &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: v1alpha1.NodeAttachmentSpec{UnderlayAddresses: []v1alpha1.IP{"192.0.2.21"}}}
	claim := func(sources ...v1alpha1.IP) {
		liar.Status.Gateways = nil
		for _, s := range sources {
			liar.Status.Gateways = append(liar.Status.Gateways, v1alpha1.NodeGateway{Source: s})
		}
	}
	claim("192.0.2.22", "10.80.0.12", "10.70.0.12")
	if got := FrameSources(nodes, []*v1alpha1.NodeAttachment{victim, liar}); !slices.Equal(got, nodes) {
		t.Errorf("with the addresses of another node: %v", got)
	}
	var many []v1alpha1.IP
	for i := range 256 {
		many = append(many, v1alpha1.IP(fmt.Sprintf("%d.0.0.%d", 1+i%100, 1+i)))
	}
	claim(many...)
	got := FrameSources(nodes, []*v1alpha1.NodeAttachment{victim, liar})
	if len(got) != maxSources+1 || slices.ContainsFunc(got, func(p netip.Prefix) bool { return !p.IsSingleIP() }) {
		t.Errorf("with 256 addresses: %v", got)
	}
}

func TestGatewaysRunOnNoVirtualNodeUnlessTheAffinityOfTheInstallationRequiresNodes(t *testing.T) {
	for name, c := range map[string]struct {
		template string
		want     string // key of the first expression
	}{
		"no affinity":           {"{}", "type"},
		"other affinities":      {"spec: {affinity: {podAntiAffinity: {}}}", "type"},
		"preferred nodes alone": {"spec: {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}}", "type"},
		"required nodes":        {"spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}}", "a"},
	} {
		template, err := values.ParseTemplate([]byte(c.template))
		if err != nil {
			t.Fatal(err)
		}
		terms := PodTemplate(inGateways(template), plainPeering()).Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if len(terms) != 1 || terms[0].MatchExpressions[0].Key != c.want {
			t.Errorf("%s: %+v", name, terms)
		}
	}
	withoutNodes := inGateways(nil) // GKE Autopilot refuses the labels; gateways carry connections there
	withoutNodes.WithoutNodes = true
	if is := PodTemplate(withoutNodes, plainPeering()).Spec.Affinity; is != nil {
		t.Errorf("without node helpers: %+v", is)
	}
}

func TestGatewaysLeaveLostNodesSoonUnlessTheInstallationSaysOtherwise(t *testing.T) {
	seconds := int64(300)
	for what, c := range map[string]struct {
		others []corev1.Toleration
		want   int
	}{
		"none":                {nil, 2},
		"another taint":       {[]corev1.Toleration{{Key: "edge", Operator: corev1.TolerationOpExists}}, 2},
		"only scheduling":     {[]corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, 2},
		"one of the two":      {[]corev1.Toleration{{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, TolerationSeconds: &seconds}}, 1},
		"every taint forever": {[]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, 0},
	} {
		got := PodTemplate(inGateways(&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Tolerations: c.others}}), plainPeering()).Spec.Tolerations
		added := got[len(c.others):]
		if len(added) != c.want {
			t.Errorf("%s: %v is added", what, added)
		}
		for _, one := range added {
			if *one.TolerationSeconds != 10 || one.Effect != corev1.TaintEffectNoExecute {
				t.Errorf("%s: %v", what, one)
			}
		}
	}
}
