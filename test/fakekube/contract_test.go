package fakekube_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

// contract is the behaviour that tests rely on. It holds for the fake server and for a real
// one.
var contract = []struct {
	says string
	test func(*testing.T, *client.Client, string)
}{
	{"objects get metadata and defaults", metadata},
	{"updates of another version or UID are conflicts", conflicts},
	{"writes without a change create no version", noWrites},
	{"main and status requests change their own part", parts},
	{"managers apply their own fields", applies},
	{"lists of built-in resources are merged by key", applyBuiltIn},
	{"merge patches remove and replace", merges},
	{"JSON patches replace whole fields", replaces},
	{"lists select and are paged", lists},
	{"a watch reports selected changes since a version", watches},
	{"deletions have preconditions and wait for finalizers", deletions},
	{"metadata can be listed without the rest", onlyMetadata},
}

func runContract(t *testing.T, config *rest.Config, newNamespace func(name string)) {
	c, err := client.New(config)
	must(t, err)
	for i, one := range contract {
		t.Run(one.says, func(t *testing.T) {
			namespace := fmt.Sprintf("contract-%d", i)
			newNamespace(namespace)
			one.test(t, c, namespace)
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func peering(name string) *v1alpha1.Peering {
	return &v1alpha1.Peering{ObjectMeta: named("", name), Spec: v1alpha1.PeeringSpec{ClusterID: "b", Prefixes: v1alpha1.RemotePrefixes{{CIDR: "10.0.0.0/16"}}}}
}

func metadata(t *testing.T, c *client.Client, namespace string) {
	p, err := c.Peerings().Create(t.Context(), peering("meta"), metav1.CreateOptions{FieldManager: "maker"})
	must(t, err)
	if p.UID == "" || p.ResourceVersion == "" || p.Generation != 1 || p.CreationTimestamp.IsZero() {
		t.Errorf("a new object has %+v", p.ObjectMeta)
	}
	if len(p.ManagedFields) != 1 || p.ManagedFields[0].Manager != "maker" || p.ManagedFields[0].Operation != metav1.ManagedFieldsOperationUpdate {
		t.Errorf("its managed fields are %+v", p.ManagedFields)
	}
	if p.Spec.Gateway.Replicas != 2 {
		t.Errorf("it has no defaults: %+v", p.Spec.Gateway)
	}
	if _, err := c.Peerings().Create(t.Context(), peering("meta"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("created twice: %v", err)
	}
	if _, err := c.Secrets(namespace+"x").Create(t.Context(), &corev1.Secret{ObjectMeta: named("", "s")}, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("created in a namespace that does not exist: %v", err)
	}
	s, err := c.Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: named("", "s"), Data: map[string][]byte{"k": {1, 2}}}, metav1.CreateOptions{})
	must(t, err)
	if s.Namespace != namespace || string(s.Data["k"]) != "\x01\x02" || s.Kind != "" && s.Kind != "Secret" {
		t.Errorf("a Secret is created as %+v", s)
	}
	if _, err := c.Peerings().Get(t.Context(), "missing", metav1.GetOptions{}); !apierrors.IsNotFound(err) || err.Error() != `peerings.strait.dev "missing" not found` {
		t.Errorf("a missing object: %v", err)
	}
}

func conflicts(t *testing.T, c *client.Client, namespace string) {
	first, err := c.ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named(namespace, "c"), Data: map[string]string{"k": "1"}}, metav1.CreateOptions{})
	must(t, err)
	next := first.DeepCopy()
	next.Data["k"] = "2"
	second, err := c.ConfigMaps(namespace).Update(t.Context(), next, metav1.UpdateOptions{})
	must(t, err)
	if second.ResourceVersion == first.ResourceVersion || second.Data["k"] != "2" || second.UID != first.UID {
		t.Errorf("updated to %+v", second)
	}
	if _, err := c.ConfigMaps(namespace).Update(t.Context(), next, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an old version: %v", err)
	}
	next.ResourceVersion = ""
	next.UID = "other"
	if _, err := c.ConfigMaps(namespace).Update(t.Context(), next, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("another UID: %v", err)
	}
	next.UID = ""
	if _, err := c.ConfigMaps(namespace).Update(t.Context(), next, metav1.UpdateOptions{}); err != nil {
		t.Errorf("any version: %v", err)
	}
	next.Name = "missing"
	if _, err := c.ConfigMaps(namespace).Update(t.Context(), next, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a missing object: %v", err)
	}
}

func noWrites(t *testing.T, c *client.Client, namespace string) {
	apply := func(value string) *corev1.ConfigMap {
		is, err := c.ConfigMaps(namespace).Apply(t.Context(), &corev1.ConfigMap{ObjectMeta: named(namespace, "c"), Data: map[string]string{"k": value}}, "test")
		must(t, err)
		return is
	}
	first, second, third := apply("1"), apply("1"), apply("2")
	if first.ResourceVersion != second.ResourceVersion || second.ResourceVersion == third.ResourceVersion {
		t.Errorf("versions %s, %s and %s", first.ResourceVersion, second.ResourceVersion, third.ResourceVersion)
	}
	again, err := c.ConfigMaps(namespace).Update(t.Context(), third, metav1.UpdateOptions{FieldManager: "test"})
	must(t, err)
	if again.ResourceVersion != third.ResourceVersion {
		t.Errorf("an update without a change creates version %s after %s", again.ResourceVersion, third.ResourceVersion)
	}
}

func parts(t *testing.T, c *client.Client, _ string) {
	p := peering("parts")
	p.Status.MTU = 1300
	p, err := c.Peerings().Create(t.Context(), p, metav1.CreateOptions{})
	must(t, err)
	if p.Status.MTU != 0 {
		t.Errorf("it was created with a status: %+v", p.Status)
	}
	p.Status.MTU, p.Spec.ClusterID, p.Labels = 1400, "d", map[string]string{"k": "v"}
	p, err = c.Peerings().UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
	must(t, err)
	if p.Status.MTU != 1400 || p.Spec.ClusterID != "b" || p.Generation != 1 {
		t.Errorf("after an update of the status: %+v", p)
	}
	p.Status.MTU, p.Spec.Prefixes = 1500, append(p.Spec.Prefixes, v1alpha1.RemotePrefix{CIDR: "10.2.0.0/16"})
	p, err = c.Peerings().Update(t.Context(), p, metav1.UpdateOptions{})
	must(t, err)
	if p.Status.MTU != 1400 || len(p.Spec.Prefixes) != 2 || p.Generation != 2 {
		t.Errorf("after an update: %+v", p)
	}
	p.Labels = map[string]string{"k": "v"}
	p, err = c.Peerings().Update(t.Context(), p, metav1.UpdateOptions{})
	must(t, err)
	if p.Labels["k"] != "v" || p.Generation != 2 {
		t.Errorf("after an update of the labels: %+v", p)
	}
	must(t, c.Peerings().Delete(t.Context(), "parts", metav1.DeleteOptions{}))
}

func applies(t *testing.T, c *client.Client, _ string) {
	created, err := c.Peerings().Apply(t.Context(), peering("applied"), "admin")
	must(t, err)
	status := func(gateway v1alpha1.GatewayStatus) *v1alpha1.Peering {
		return &v1alpha1.Peering{ObjectMeta: named("", "applied"), Status: v1alpha1.PeeringStatus{Gateways: []v1alpha1.GatewayStatus{gateway}}}
	}
	_, err = c.Peerings().ApplyStatus(t.Context(), status(v1alpha1.GatewayStatus{Name: "applied-0", Number: 7}), "controller")
	must(t, err)
	is, err := c.Peerings().ApplyStatus(t.Context(), status(v1alpha1.GatewayStatus{Name: "applied-0", MTU: 1370}), "gateway")
	must(t, err)
	if len(is.Status.Gateways) != 1 || is.Status.Gateways[0].Number != 7 || is.Status.Gateways[0].MTU != 1370 {
		t.Errorf("after two managers applied one field each: %+v", is.Status.Gateways)
	}
	is, err = c.Peerings().ApplyStatus(t.Context(), &v1alpha1.Peering{ObjectMeta: named("", "applied")}, "controller")
	must(t, err)
	if len(is.Status.Gateways) != 1 || is.Status.Gateways[0].Number != 0 || is.Status.Gateways[0].MTU != 1370 {
		t.Errorf("after one manager removed its field: %+v", is.Status.Gateways)
	}
	var managers []string
	for _, f := range is.ManagedFields {
		managers = append(managers, fmt.Sprintf("%s %s %s", f.Manager, f.Operation, f.Subresource))
	}
	if want := []string{"admin Apply ", "gateway Apply status"}; !slices.Equal(managers, want) {
		t.Errorf("managers %q, want %q", managers, want)
	}
	body := []byte(`{"apiVersion":"strait.dev/v1alpha1","kind":"Peering","metadata":{"name":"applied"},"spec":{"clusterID":"e"}}`)
	if _, err := c.Peerings().Patch(t.Context(), "applied", types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "other"}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "admin"`) {
		t.Errorf("applied another manager's field without force: %v", err)
	}
	late := status(v1alpha1.GatewayStatus{Name: "applied-0"})
	late.ResourceVersion = created.ResourceVersion
	if _, err := c.Peerings().ApplyStatus(t.Context(), late, "controller"); !apierrors.IsConflict(err) {
		t.Errorf("applied to an old version: %v", err)
	}
	late.Name, late.ResourceVersion = "missing", ""
	if _, err := c.Peerings().ApplyStatus(t.Context(), late, "controller"); !apierrors.IsNotFound(err) {
		t.Errorf("applied the status of a missing object: %v", err)
	}
	fresh := peering("fresh")
	fresh.UID = created.UID
	if _, err := c.Peerings().Apply(t.Context(), fresh, "admin"); !apierrors.IsConflict(err) {
		t.Errorf("applied a missing object with a UID: %v", err)
	}
	fresh.UID, fresh.ResourceVersion = "", created.ResourceVersion
	if _, err := c.Peerings().Apply(t.Context(), fresh, "admin"); err != nil {
		t.Errorf("applied a missing object with a version: %v, which API servers ignore", err)
	}
	must(t, c.Peerings().Delete(t.Context(), "applied", metav1.DeleteOptions{}))
}

func applyBuiltIn(t *testing.T, c *client.Client, namespace string) {
	set := func(env ...corev1.EnvVar) *appsv1.StatefulSet {
		labels := map[string]string{"a": "b"}
		return &appsv1.StatefulSet{ObjectMeta: named(namespace, "s"), Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "i", Env: env}},
			}},
		}}
	}
	_, err := c.StatefulSets(namespace).Apply(t.Context(), set(corev1.EnvVar{Name: "A", Value: "1"}, corev1.EnvVar{Name: "B", Value: "2"}), "one")
	must(t, err)
	_, err = c.StatefulSets(namespace).Apply(t.Context(), set(corev1.EnvVar{Name: "C", Value: "3"}), "two")
	must(t, err)
	is, err := c.StatefulSets(namespace).Apply(t.Context(), set(corev1.EnvVar{Name: "A", Value: "4"}), "one")
	must(t, err)
	var env []string
	for _, e := range is.Spec.Template.Spec.Containers[0].Env {
		env = append(env, e.Name+e.Value)
	}
	slices.Sort(env)
	if !slices.Equal(env, []string{"A4", "C3"}) || is.Generation != 3 {
		t.Errorf("env %v, generation %d", env, is.Generation)
	}
}

func merges(t *testing.T, c *client.Client, namespace string) {
	first, err := c.ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named(namespace, "c"), Data: map[string]string{"a": "1", "b": "2"}}, metav1.CreateOptions{})
	must(t, err)
	body := `{"metadata":{"resourceVersion":%q,"annotations":{"k":"v"}},"data":{"a":null,"c":"3"}}`
	is, err := c.ConfigMaps(namespace).Patch(t.Context(), "c", types.MergePatchType, fmt.Appendf(nil, body, first.ResourceVersion), metav1.PatchOptions{})
	must(t, err)
	if fmt.Sprint(is.Data) != "map[b:2 c:3]" || is.Annotations["k"] != "v" {
		t.Errorf("patched to %v", is)
	}
	if _, err := c.ConfigMaps(namespace).Patch(t.Context(), "c", types.MergePatchType, fmt.Appendf(nil, body, first.ResourceVersion), metav1.PatchOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("patched an old version: %v", err)
	}
}

func replaces(t *testing.T, c *client.Client, namespace string) {
	body := []byte(`[{"op":"add","path":"/metadata/labels","value":{"c":"3"}},{"op":"add","path":"/data","value":{"d":"4"}}]`)
	if _, err := c.ConfigMaps(namespace).Patch(t.Context(), "c", types.JSONPatchType, body, metav1.PatchOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("patched what does not exist: %v", err)
	}
	before := &corev1.ConfigMap{ObjectMeta: named(namespace, "c"), Data: map[string]string{"a": "1"}}
	before.Labels = map[string]string{"b": "2"}
	_, err := c.ConfigMaps(namespace).Create(t.Context(), before, metav1.CreateOptions{})
	must(t, err)
	is, err := c.ConfigMaps(namespace).Patch(t.Context(), "c", types.JSONPatchType, body, metav1.PatchOptions{})
	must(t, err)
	if fmt.Sprint(is.Data, is.Labels) != "map[d:4] map[c:3]" {
		t.Errorf("patched to %v", is)
	}
	if _, err := c.ConfigMaps(namespace).Patch(t.Context(), "c", types.JSONPatchType, []byte("[1]"), metav1.PatchOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("a malformed patch: %v", err)
	}
}

// podOn returns a pod that runs on a node, unless the node's name is empty.
func podOn(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func lists(t *testing.T, c *client.Client, namespace string) {
	for i := range 5 {
		_, err := c.ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i), Labels: map[string]string{"odd": fmt.Sprint(i % 2)}}}, metav1.CreateOptions{})
		must(t, err)
	}
	names := func(options metav1.ListOptions) (names []string, more string) {
		list, err := c.ConfigMaps(namespace).List(t.Context(), options)
		must(t, err)
		for _, o := range list.Items {
			if strings.HasPrefix(o.Name, "c") {
				names = append(names, o.Name)
			}
		}
		return names, list.Continue
	}
	if all, _ := names(metav1.ListOptions{LabelSelector: "odd=1"}); !slices.Equal(all, []string{"c1", "c3"}) {
		t.Errorf("by label: %v", all)
	}
	if all, _ := names(metav1.ListOptions{FieldSelector: "metadata.name=c4"}); !slices.Equal(all, []string{"c4"}) {
		t.Errorf("by name: %v", all)
	}
	first, more := names(metav1.ListOptions{LabelSelector: "odd", Limit: 3})
	rest, end := names(metav1.ListOptions{LabelSelector: "odd", Limit: 3, Continue: more})
	if !slices.Equal(first, []string{"c0", "c1", "c2"}) || !slices.Equal(rest, []string{"c3", "c4"}) || more == "" || end != "" {
		t.Errorf("pages %v and %v", first, rest)
	}
	if _, err := c.Peerings().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.clusterID=b"}); !apierrors.IsBadRequest(err) {
		t.Errorf("by an unknown field: %v", err)
	}
	must(t, c.ConfigMaps(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "odd=0"}))
	if all, _ := names(metav1.ListOptions{}); !slices.Equal(all, []string{"c1", "c3"}) {
		t.Errorf("after the deletion of some: %v", all)
	}
}

func watches(t *testing.T, c *client.Client, namespace string) {
	list, err := c.Pods(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	create := func(pod *corev1.Pod) *corev1.Pod {
		made, err := c.Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		must(t, err)
		return made
	}
	create(podOn(namespace, "waiting", ""))
	runs := create(podOn(namespace, "runs", "n"))
	runs.Labels["k"] = "v"
	runs, err = c.Pods(namespace).Update(t.Context(), runs, metav1.UpdateOptions{})
	must(t, err)
	runs.Status.Phase = corev1.PodSucceeded
	runs, err = c.Pods(namespace).UpdateStatus(t.Context(), runs, metav1.UpdateOptions{})
	must(t, err)
	none := int64(0)
	must(t, c.Pods(namespace).Delete(t.Context(), "runs", metav1.DeleteOptions{GracePeriodSeconds: &none}))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := c.Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, FieldSelector: "spec.nodeName!=,status.phase!=Succeeded"})
	must(t, err)
	create(podOn(namespace, "last", "n"))
	var got []string
	for event := range w.ResultChan() {
		pod := event.Object.(*corev1.Pod)
		got = append(got, fmt.Sprintf("%s %s %s", event.Type, pod.Name, pod.Status.Phase))
		if event.Type == watch.Deleted && pod.ResourceVersion != runs.ResourceVersion {
			t.Errorf("the deletion has version %s, want %s", pod.ResourceVersion, runs.ResourceVersion)
		}
		if pod.Name == "last" {
			break
		}
	}
	w.Stop()
	if want := []string{"ADDED runs Pending", "MODIFIED runs Pending", "DELETED runs Pending", "ADDED last Pending"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	w, err = c.Peerings().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=seen"})
	must(t, err)
	for _, name := range []string{"unseen", "seen"} {
		_, err = c.Peerings().Create(t.Context(), peering(name), metav1.CreateOptions{})
		must(t, err)
		must(t, c.Peerings().Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
		if event := <-w.ResultChan(); event.Type != want || event.Object.(*v1alpha1.Peering).Name != "seen" {
			t.Errorf("got %v, want %s", event, want)
		}
	}
	w.Stop()
	for range w.ResultChan() { // until it is closed
	}
}

func deletions(t *testing.T, c *client.Client, namespace string) {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Finalizers: []string{"strait.dev/test"}}}
	o, err := c.ConfigMaps(namespace).Create(t.Context(), o, metav1.CreateOptions{})
	must(t, err)
	other := types.UID("other")
	for _, p := range []metav1.Preconditions{{UID: &other}, {ResourceVersion: new("1")}} {
		if err := c.ConfigMaps(namespace).Delete(t.Context(), "c", metav1.DeleteOptions{Preconditions: &p}); !apierrors.IsConflict(err) {
			t.Errorf("deleted on %+v: %v", p, err)
		}
	}
	must(t, c.ConfigMaps(namespace).Delete(t.Context(), "c", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion}}))
	o, err = c.ConfigMaps(namespace).Get(t.Context(), "c", metav1.GetOptions{})
	must(t, err)
	if o.DeletionTimestamp == nil {
		t.Error("it has no deletion timestamp")
	}
	o.Finalizers = nil
	_, err = c.ConfigMaps(namespace).Update(t.Context(), o, metav1.UpdateOptions{})
	must(t, err)
	if err := c.ConfigMaps(namespace).Delete(t.Context(), "c", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the finalizer was removed: %v", err)
	}
}

func onlyMetadata(t *testing.T, c *client.Client, namespace string) {
	_, err := c.Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{"m": "1"}}}, metav1.CreateOptions{})
	must(t, err)
	all, err := c.Metadata(t.Context(), corev1.SchemeGroupVersion.WithResource("secrets"), "m=1")
	must(t, err)
	if len(all) != 1 || all[0].Name != "s" || all[0].Namespace != namespace {
		t.Errorf("got %+v", all)
	}
	all, err = c.Metadata(t.Context(), v1alpha1.GroupVersion.WithResource("unknown"), "")
	if len(all) != 0 || err != nil {
		t.Errorf("of an unknown resource: %v, %v", all, err)
	}
	self, err := c.Self(t.Context())
	if self.Username == "" || err != nil {
		t.Errorf("it is %+v, %v", self, err)
	}
	version, clock, err := c.Version(t.Context())
	if version.Major != "1" || clock.IsZero() || err != nil {
		t.Errorf("version %+v at %v, %v", version, clock, err)
	}
	if _, err := c.Raw(t.Context(), "/nothing"); !apierrors.IsNotFound(err) {
		t.Errorf("an unknown path: %v", errors.Unwrap(err))
	}
}
