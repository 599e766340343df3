package gather

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// read lists the objects of a resource type, and adds their allowed parts as a file; nil leaves
// one out. Errors are recorded in the archive.
func read[T client.Object, L client.List](ctx context.Context, s *site, file string, kind *client.Kind[T, L], allow func(T) any) []T {
	return readSelected(ctx, s, file, kind, metav1.ListOptions{}, allow)
}

// readSelected is read of the objects that the options select.
func readSelected[T client.Object, L client.List](ctx context.Context, s *site, file string, kind *client.Kind[T, L], which metav1.ListOptions, allow func(T) any) (all []T) {
	s.say("%s: %s", s.Name, file)
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	list, err := kind.List(ctx, which)
	if err != nil {
		s.recordMissing(file, err)
		return nil
	}
	shown := []any{}
	_ = meta.EachListItem(list, func(o runtime.Object) error { // fails only for what is no list
		one := o.(T)
		all = append(all, one)
		if is := allow(one); is != nil {
			shown = append(shown, is)
		}
		return nil
	})
	s.yaml(file, map[string]any{"items": shown})
	return all
}

// withMeta reduces the metadata of an object to its allowed part.
func withMeta[T client.Object](o T) any {
	m := any(o).(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
	*m = allowMeta(*m)
	return o
}

func (s *site) yaml(file string, value any) {
	text, err := yaml.Marshal(value)
	if err != nil {
		s.recordMissing(file, err)
		return
	}
	s.put(file, s.scanner.redact(text))
}

// strait reads Strait's custom resources. Their fields contain no secrets.
func (s *site) strait(ctx context.Context) (peerings []*v1alpha1.Peering, nodes []*v1alpha1.NodeAttachment) {
	peerings = read(ctx, s, "objects/peerings.yaml", s.Client.Peerings(), func(p *v1alpha1.Peering) any {
		s.scanner.addPublic(publicKeys(p)...)
		return withMeta(p)
	})
	for _, p := range peerings {
		for _, g := range p.Status.Gateways {
			s.gatewayNodes[g.Node] = true
		}
	}
	read(ctx, s, "objects/gatewayreports.yaml", s.Client.GatewayReports(install.GatewayNamespace), func(o *v1alpha1.GatewayReport) any {
		s.scanner.addPublic(reportedKeys(o)...)
		return withMeta(o)
	})
	read(ctx, s, "objects/clusternetworks.yaml", s.Client.ClusterNetworks(), withMeta)
	nodes = read(ctx, s, "objects/nodeattachments.yaml", s.Client.NodeAttachments(), withMeta)
	read(ctx, s, "objects/addressclaims.yaml", s.Client.AddressClaims(), withMeta)
	read(ctx, s, "objects/addressmappings.yaml", s.Client.AddressMappings(), withMeta)
	return peerings, nodes
}

// secrets lists the Secrets, and passes their contents to the scanner.
func (s *site) secrets(ctx context.Context, namespace string) {
	read(ctx, s, namespace+"/secrets.yaml", s.Client.Secrets(namespace), func(o *corev1.Secret) any {
		for _, content := range o.Data {
			s.scanner.addSecret(content)
		}
		return keysOf{allowMeta(o.ObjectMeta), o.Type, slices.Sorted(maps.Keys(o.Data))}
	})
}

// kubernetes reads cluster-scoped resources of Kubernetes.
func (s *site) kubernetes(ctx context.Context) {
	read(ctx, s, "kubernetes/nodes.yaml", s.Client.Nodes(), func(o *corev1.Node) any { return allowNode(*o) })
	read(ctx, s, "kubernetes/servicecidrs.yaml", s.Client.ServiceCIDRs(), withMeta)
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

type definitions struct {
	Items []definition `json:"items"`
}

// definition is the shown fields of a CustomResourceDefinition.
type definition struct {
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
}

func (d *definitions) ours() {
	d.Items = slices.DeleteFunc(d.Items, func(one definition) bool { return !slices.Contains(shownGroups, one.Spec.Group) })
}

func (s *site) json(file string, value any) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		s.recordMissing(file, err)
		return
	}
	s.put(file, s.scanner.redact(append(text, '\n')))
}

// namespace reads the objects in a namespace of Strait, and returns its pods.
func (s *site) namespace(ctx context.Context, name string) []*corev1.Pod {
	c := s.Client
	at := func(file string) string { return fmt.Sprintf("%s/%s.yaml", name, file) }
	read(ctx, s, at("configmaps"), c.ConfigMaps(name), func(o *corev1.ConfigMap) any {
		return keysOf{Metadata: allowMeta(o.ObjectMeta), Keys: slices.Sorted(maps.Keys(o.Data))}
	})
	read(ctx, s, at("services"), c.Services(name), withMeta)
	read(ctx, s, at("networkpolicies"), c.NetworkPolicies(name), withMeta)
	read(ctx, s, at("poddisruptionbudgets"), c.PodDisruptionBudgets(name), withMeta)
	read(ctx, s, at("leases"), c.Leases(name), withMeta)
	read(ctx, s, at("deployments"), c.Deployments(name), func(o *appsv1.Deployment) any {
		return appsv1.Deployment{ObjectMeta: allowMeta(o.ObjectMeta), Status: o.Status, Spec: appsv1.DeploymentSpec{
			Replicas: o.Spec.Replicas, Selector: o.Spec.Selector, Strategy: o.Spec.Strategy, Paused: o.Spec.Paused, Template: allowTemplate(o.Spec.Template)}}
	})
	read(ctx, s, at("statefulsets"), c.StatefulSets(name), func(o *appsv1.StatefulSet) any {
		return appsv1.StatefulSet{ObjectMeta: allowMeta(o.ObjectMeta), Status: o.Status, Spec: appsv1.StatefulSetSpec{
			Replicas: o.Spec.Replicas, Selector: o.Spec.Selector, ServiceName: o.Spec.ServiceName, UpdateStrategy: o.Spec.UpdateStrategy,
			PodManagementPolicy: o.Spec.PodManagementPolicy, Template: allowTemplate(o.Spec.Template)}}
	})
	read(ctx, s, at("daemonsets"), c.DaemonSets(name), func(o *appsv1.DaemonSet) any {
		return appsv1.DaemonSet{ObjectMeta: allowMeta(o.ObjectMeta), Status: o.Status, Spec: appsv1.DaemonSetSpec{
			Selector: o.Spec.Selector, UpdateStrategy: o.Spec.UpdateStrategy, Template: allowTemplate(o.Spec.Template)}}
	})
	read(ctx, s, at("events"), c.Events(name), s.event)
	return read(ctx, s, at("pods"), c.Pods(name), func(o *corev1.Pod) any {
		return corev1.Pod{ObjectMeta: allowMeta(o.ObjectMeta), Spec: allowPodSpec(o.Spec), Status: allowPodStatus(o.Status)}
	})
}
