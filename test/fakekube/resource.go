package fakekube

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	mcscrds "sigs.k8s.io/mcs-api/config/crd"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// resource is a type of objects on the server.
type resource struct {
	group, version, plural, kind string
	namespaced                   bool
	status                       bool           // it has the status subresource
	generations                  bool           // the generation counts changes of the specification
	schema                       map[string]any // OpenAPI, of a custom resource
}

func (r *resource) key() schema.GroupResource {
	return schema.GroupResource{Group: r.group, Resource: r.plural}
}

func (r *resource) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.group, Version: r.version, Kind: r.kind}
}

func (r *resource) custom() bool { return r.schema != nil }

// definitionResource is the resource of CustomResourceDefinitions.
var definitionResource = &resource{group: "apiextensions.k8s.io", version: "v1", plural: "customresourcedefinitions", kind: "CustomResourceDefinition"}

const (
	namespaced = 1 << iota
	status
	generations
)

// builtIn are the resources of Kubernetes.
var builtIn = func() []*resource {
	all := []*resource{definitionResource}
	for _, r := range []struct {
		group, version, plural, kind string
		has                          int
	}{
		{"", "v1", "configmaps", "ConfigMap", namespaced},
		{"", "v1", "endpoints", "Endpoints", namespaced},
		{"", "v1", "events", "Event", namespaced},
		{"", "v1", "namespaces", "Namespace", status},
		{"", "v1", "nodes", "Node", status},
		{"", "v1", "pods", "Pod", namespaced | status | generations},
		{"", "v1", "podtemplates", "PodTemplate", namespaced | generations},
		{"", "v1", "resourcequotas", "ResourceQuota", namespaced | status},
		{"", "v1", "secrets", "Secret", namespaced},
		{"", "v1", "serviceaccounts", "ServiceAccount", namespaced},
		{"", "v1", "services", "Service", namespaced | status},
		{"apps", "v1", "daemonsets", "DaemonSet", namespaced | status | generations},
		{"apps", "v1", "deployments", "Deployment", namespaced | status | generations},
		{"apps", "v1", "statefulsets", "StatefulSet", namespaced | status | generations},
		{"coordination.k8s.io", "v1", "leases", "Lease", namespaced},
		{"discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced | generations},
		{"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", namespaced | generations},
		{"networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", status},
		{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced | status | generations},
		{"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", 0},
		{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", 0},
		{"rbac.authorization.k8s.io", "v1", "roles", "Role", namespaced},
		{"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced},
	} {
		all = append(all, &resource{r.group, r.version, r.plural, r.kind, r.has&namespaced != 0, r.has&status != 0, r.has&generations != 0, nil})
	}
	return all
}()

// scheme has the Go types of all resources except CustomResourceDefinition.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetesscheme.AddToScheme, v1alpha1.AddToScheme, mcsv1beta1.Install} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

// definition is a CustomResourceDefinition of Strait or of the Multi-Cluster Services API.
type definition struct {
	object   map[string]any
	resource *resource
}

// definitions are all CustomResourceDefinitions.
var definitions = sync.OnceValue(func() (all []definition) {
	texts := [][]byte{mcscrds.ServiceExportCRD, mcscrds.ServiceImportCRD}
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(crds.Files, file)
		if err != nil {
			panic(err)
		}
		texts = append(texts, text)
	}
	for _, text := range texts {
		all = append(all, define(text))
	}
	return all
})

// define returns a definition with its storage version, which is the only one served.
func define(text []byte) definition {
	type version struct {
		Name         string
		Storage      bool
		Schema       struct{ OpenAPIV3Schema map[string]any }
		Subresources struct{ Status *struct{} }
	}
	var read struct {
		Spec struct {
			Group, Scope string
			Names        struct{ Plural, Kind string }
			Versions     []version
		}
	}
	object := make(map[string]any)
	for _, into := range []any{&read, &object} {
		if err := yaml.Unmarshal(text, into); err != nil {
			panic(fmt.Sprintf("%v in the CustomResourceDefinition\n%s", err, text))
		}
	}
	stored := read.Spec.Versions[slices.IndexFunc(read.Spec.Versions, func(v version) bool { return v.Storage })]
	return definition{numbers(object), &resource{
		read.Spec.Group, stored.Name, read.Spec.Names.Plural, read.Spec.Names.Kind,
		read.Spec.Scope == "Namespaced", stored.Subresources.Status != nil, true, numbers(stored.Schema.OpenAPIV3Schema),
	}}
}

// numbers converts whole numbers to int64, as in objects of Kubernetes.
func numbers(object map[string]any) map[string]any {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	fixed, err := decodeJSON(text)
	if err != nil {
		panic(err)
	}
	return fixed
}

// ofKubernetes defines how fields of Kubernetes' resources are merged.
var ofKubernetes = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme)
})

// ofDefinitions defines how fields of custom resources are merged.
var ofDefinitions = sync.OnceValue(func() managedfields.TypeConverter {
	schemas := make(map[string]*spec.Schema)
	for _, d := range definitions() {
		text, err := json.Marshal(d.resource.schema)
		if err != nil {
			panic(err)
		}
		s := new(spec.Schema)
		if err := json.Unmarshal(text, s); err != nil {
			panic(err)
		}
		gvk := d.resource.gvk()
		s.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}})
		schemas[gvk.Kind] = s
	}
	converter, err := managedfields.NewTypeConverter(schemas, true)
	if err != nil {
		panic(err)
	}
	return converter
})

// hasManagers reports whether objects have managed fields. Leases have none here: controllers write them
// every two seconds of virtual time, and no test applies them.
func (r *resource) hasManagers() bool { return r.kind != "Lease" }

// fieldManager returns the manager of the managed fields of objects. subresource is that of
// the request.
func (r *resource) fieldManager(subresource string) *managedfields.FieldManager {
	converter := ofKubernetes
	switch {
	case r.custom():
		converter = ofDefinitions
	case r == definitionResource:
		converter = managedfields.NewDeducedTypeConverter
	}
	manager, err := managedfields.NewDefaultFieldManager(converter(), oneVersion{}, oneVersion{}, oneVersion{}, r.gvk(), r.gvk().GroupVersion(), subresource, nil)
	if err != nil {
		panic(err)
	}
	return manager
}

// oneVersion converts nothing: every resource has one version here.
type oneVersion struct{}

func (oneVersion) Convert(_, _, _ any) error { panic("there is one version") }
func (oneVersion) Default(runtime.Object)    {}
func (oneVersion) ConvertToVersion(object runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return object, nil
}
func (oneVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
func (oneVersion) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{Object: make(map[string]any)}
	object.SetGroupVersionKind(kind)
	return object, nil
}

// setDefaults sets missing values to the defaults of a schema.
func setDefaults(value any, schema map[string]any) {
	switch value := value.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			property := property.(map[string]any)
			if _, is := value[name]; !is {
				if given, has := property["default"]; has {
					value[name] = runtime.DeepCopyJSONValue(given)
				}
			}
			if field, is := value[name]; is {
				setDefaults(field, property)
			}
		}
		if each, is := schema["additionalProperties"].(map[string]any); is {
			for _, field := range value {
				setDefaults(field, each)
			}
		}
	case []any:
		if each, is := schema["items"].(map[string]any); is {
			for _, item := range value {
				setDefaults(item, each)
			}
		}
	}
}

// resource returns the resource of a request, or nil.
func (s *store) resource(q Request) *resource {
	if i := slices.IndexFunc(builtIn, func(r *resource) bool { return r.key() == gr(q) }); i >= 0 {
		return builtIn[i]
	}
	for _, d := range definitions() {
		if d.resource.key() == gr(q) && s.objects[definitionResource.key()][key{"", q.Resource + "." + q.Group}] != nil {
			return d.resource
		}
	}
	return nil
}
