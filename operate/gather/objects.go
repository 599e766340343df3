package gather

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
)

// readWithin is the timeout of one request to an API server.
const readWithin = 20 * time.Second

// keysOf is the shown part of a Secret or a ConfigMap.
type keysOf struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Type     corev1.SecretType `json:"type,omitempty"`
	Keys     []string          `json:"keys"` // of its data
}

// read lists all objects of a resource type and adds their allowed parts as a file. Errors
// are recorded in the archive.
func read[T client.Object, L client.List, S any](ctx context.Context, s *site, file string, kind *client.Kind[T, L], items func(L) []S, allow func(S) any) []S {
	return readSome(ctx, s, file, kind, metav1.ListOptions{}, items, allow)
}

// readSome is read of the objects that options select.
func readSome[T client.Object, L client.List, S any](ctx context.Context, s *site, file string, kind *client.Kind[T, L], which metav1.ListOptions, items func(L) []S, allow func(S) any) []S {
	s.say("%s: %s", s.Name, file)
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	list, err := kind.List(ctx, which)
	if err != nil {
		s.recordMissing(file, err)
		return nil
	}
	all := items(list)
	shown := make([]any, 0, len(all))
	for _, one := range all {
		shown = append(shown, allow(one))
	}
	s.yaml(file, map[string]any{"items": shown})
	return all
}

// yaml adds a value as a YAML file.
func (s *site) yaml(file string, value any) {
	text, err := yaml.Marshal(value)
	if err != nil {
		s.recordMissing(file, err)
		return
	}
	s.put(file, s.scanner.redact(text))
}

// strait reads Strait's custom resources. Their fields contain no secrets.
func (s *site) strait(ctx context.Context) (peerings []v1alpha1.Peering, nodes []v1alpha1.NodeAttachment) {
	peerings = read(ctx, s, "objects/peerings.yaml", s.Client.Peerings(), func(l *v1alpha1.PeeringList) []v1alpha1.Peering { return l.Items },
		func(p v1alpha1.Peering) any {
			s.scanner.addPublic(publicKeys(&p)...)
			p.ObjectMeta = allowMeta(p.ObjectMeta)
			return p
		})
	for i := range peerings {
		for _, g := range peerings[i].Status.Gateways {
			s.gatewayNodes[g.Node] = true
		}
	}
	read(ctx, s, "objects/gatewayreports.yaml", s.Client.GatewayReports(install.GatewayNamespace), func(l *v1alpha1.GatewayReportList) []v1alpha1.GatewayReport { return l.Items },
		func(o v1alpha1.GatewayReport) any {
			s.scanner.addPublic(reportedKeys(&o)...)
			o.ObjectMeta = allowMeta(o.ObjectMeta)
			return o
		})
	read(ctx, s, "objects/clusternetworks.yaml", s.Client.ClusterNetworks(), func(l *v1alpha1.ClusterNetworkList) []v1alpha1.ClusterNetwork { return l.Items },
		func(o v1alpha1.ClusterNetwork) any { o.ObjectMeta = allowMeta(o.ObjectMeta); return o })
	nodes = read(ctx, s, "objects/nodeattachments.yaml", s.Client.NodeAttachments(), func(l *v1alpha1.NodeAttachmentList) []v1alpha1.NodeAttachment { return l.Items },
		func(o v1alpha1.NodeAttachment) any { o.ObjectMeta = allowMeta(o.ObjectMeta); return o })
	read(ctx, s, "objects/addressclaims.yaml", s.Client.AddressClaims(), func(l *v1alpha1.AddressClaimList) []v1alpha1.AddressClaim { return l.Items },
		func(o v1alpha1.AddressClaim) any { o.ObjectMeta = allowMeta(o.ObjectMeta); return o })
	read(ctx, s, "objects/addressmappings.yaml", s.Client.AddressMappings(), func(l *v1alpha1.AddressMappingList) []v1alpha1.AddressMapping { return l.Items },
		func(o v1alpha1.AddressMapping) any { o.ObjectMeta = allowMeta(o.ObjectMeta); return o })
	return peerings, nodes
}

// secrets lists the Secrets, and passes their contents to the scanner.
func (s *site) secrets(ctx context.Context, namespace string) {
	read(ctx, s, namespace+"/secrets.yaml", s.Client.Secrets(namespace), func(l *corev1.SecretList) []corev1.Secret { return l.Items },
		func(o corev1.Secret) any {
			for _, content := range o.Data {
				s.scanner.addSecret(content)
			}
			return keysOf{allowMeta(o.ObjectMeta), o.Type, slices.Sorted(maps.Keys(o.Data))}
		})
}

// kubernetes reads cluster-scoped resources of Kubernetes.
func (s *site) kubernetes(ctx context.Context) {
	read(ctx, s, "kubernetes/nodes.yaml", s.Client.Nodes(), func(l *corev1.NodeList) []corev1.Node { return l.Items }, func(o corev1.Node) any { return allowNode(o) })
	read(ctx, s, "kubernetes/servicecidrs.yaml", s.Client.ServiceCIDRs(), func(l *networkingv1.ServiceCIDRList) []networkingv1.ServiceCIDR { return l.Items },
		func(o networkingv1.ServiceCIDR) any { o.ObjectMeta = allowMeta(o.ObjectMeta); return o })
	for _, raw := range []struct {
		file, path string
		into       any
	}{
		{"kubernetes/version.json", "/version", &map[string]any{}},
		{"kubernetes/crds.json", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definitions{}},
	} {
		ctx, cancel := context.WithTimeout(ctx, readWithin)
		text, err := s.Client.Raw(ctx, raw.path)
		cancel()
		if err == nil {
			err = json.Unmarshal(text, raw.into)
		}
		if err != nil {
			s.recordMissing(raw.file, err)
			continue
		}
		if all, is := raw.into.(*definitions); is {
			all.ours()
		}
		s.json(raw.file, raw.into)
	}
}

// definitions are the shown fields of CustomResourceDefinitions.
type definitions struct {
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Group    string `json:"group"`
			Versions []struct {
				Name    string `json:"name"`
				Served  bool   `json:"served"`
				Storage bool   `json:"storage"`
			} `json:"versions"`
		} `json:"spec"`
		Status struct {
			StoredVersions []string           `json:"storedVersions"`
			Conditions     []metav1.Condition `json:"conditions"`
		} `json:"status"`
	} `json:"items"`
}

// ours keeps those of Strait and of the Multi-Cluster Services API.
func (d *definitions) ours() {
	kept := d.Items[:0]
	for _, one := range d.Items {
		if slices.Contains(shownGroups, one.Spec.Group) {
			kept = append(kept, one)
		}
	}
	d.Items = kept
}

// json adds a value as a JSON file.
func (s *site) json(file string, value any) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		s.recordMissing(file, err)
		return
	}
	s.put(file, s.scanner.redact(append(text, '\n')))
}

// namespace reads the objects in a namespace of Strait, and returns its pods.
func (s *site) namespace(ctx context.Context, name string) []corev1.Pod {
	c := s.Client
	at := func(file string) string { return fmt.Sprintf("%s/%s.yaml", name, file) }
	read(ctx, s, at("configmaps"), c.ConfigMaps(name), func(l *corev1.ConfigMapList) []corev1.ConfigMap { return l.Items },
		func(o corev1.ConfigMap) any {
			return keysOf{Metadata: allowMeta(o.ObjectMeta), Keys: slices.Sorted(maps.Keys(o.Data))}
		})
	read(ctx, s, at("services"), c.Services(name), func(l *corev1.ServiceList) []corev1.Service { return l.Items },
		func(o corev1.Service) any { o.ObjectMeta = allowMeta(o.ObjectMeta); return o })
	read(ctx, s, at("networkpolicies"), c.NetworkPolicies(name), func(l *networkingv1.NetworkPolicyList) []networkingv1.NetworkPolicy { return l.Items },
		func(o networkingv1.NetworkPolicy) any { o.ObjectMeta = allowMeta(o.ObjectMeta); return o })
	read(ctx, s, at("poddisruptionbudgets"), c.PodDisruptionBudgets(name), func(l *policyv1.PodDisruptionBudgetList) []policyv1.PodDisruptionBudget { return l.Items },
		func(o policyv1.PodDisruptionBudget) any { o.ObjectMeta = allowMeta(o.ObjectMeta); return o })
	read(ctx, s, at("leases"), c.Leases(name), func(l *coordinationv1.LeaseList) []coordinationv1.Lease { return l.Items },
		func(o coordinationv1.Lease) any { o.ObjectMeta = allowMeta(o.ObjectMeta); return o })
	read(ctx, s, at("deployments"), c.Deployments(name), func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items },
		func(o appsv1.Deployment) any {
			return appsv1.Deployment{ObjectMeta: allowMeta(o.ObjectMeta), Status: o.Status, Spec: appsv1.DeploymentSpec{
				Replicas: o.Spec.Replicas, Selector: o.Spec.Selector, Strategy: o.Spec.Strategy, Paused: o.Spec.Paused, Template: allowTemplate(o.Spec.Template)}}
		})
	read(ctx, s, at("statefulsets"), c.StatefulSets(name), func(l *appsv1.StatefulSetList) []appsv1.StatefulSet { return l.Items },
		func(o appsv1.StatefulSet) any {
			return appsv1.StatefulSet{ObjectMeta: allowMeta(o.ObjectMeta), Status: o.Status, Spec: appsv1.StatefulSetSpec{
				Replicas: o.Spec.Replicas, Selector: o.Spec.Selector, ServiceName: o.Spec.ServiceName, UpdateStrategy: o.Spec.UpdateStrategy,
				PodManagementPolicy: o.Spec.PodManagementPolicy, Template: allowTemplate(o.Spec.Template)}}
		})
	read(ctx, s, at("daemonsets"), c.DaemonSets(name), func(l *appsv1.DaemonSetList) []appsv1.DaemonSet { return l.Items },
		func(o appsv1.DaemonSet) any {
			return appsv1.DaemonSet{ObjectMeta: allowMeta(o.ObjectMeta), Status: o.Status, Spec: appsv1.DaemonSetSpec{
				Selector: o.Spec.Selector, UpdateStrategy: o.Spec.UpdateStrategy, Template: allowTemplate(o.Spec.Template)}}
		})
	read(ctx, s, at("events"), c.Events(name), func(l *corev1.EventList) []corev1.Event { return l.Items },
		func(o corev1.Event) any {
			o.Message = string(s.scanner.redactText([]byte(o.Message)))
			return allowEvent(o)
		})
	return read(ctx, s, at("pods"), c.Pods(name), func(l *corev1.PodList) []corev1.Pod { return l.Items },
		func(o corev1.Pod) any {
			return corev1.Pod{ObjectMeta: allowMeta(o.ObjectMeta), Spec: allowPodSpec(o.Spec), Status: allowPodStatus(o.Status)}
		})
}
