package offload

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"

	"strait.dev/strait/operate/operator"
)

// manager is the field manager of what these commands apply. It is not that of the commands
// which join clusters: each leaves the other's fields of a Peering alone.
const manager = "strait-offload"

//go:embed manifests/*.yaml
var files embed.FS

var manifests = template.Must(template.New("").Option("missingkey=error").ParseFS(files, "manifests/*.yaml"))

type values struct {
	Namespace string // of the agents
	Agent     string // name of the agent and of its objects
	Command   string // that the agent runs
	Peering   string
	Image     string
	Node      string // of a borrower
	Twins     string // namespace that is lent
	Made      bool   // it was made by strait lend
	Isolate   bool   // its pods reach no other pods of this cluster

	CPU, Memory, Pods string   // quota of the namespace; empty: none
	Mapped            []string // CIDRs of the other cluster's pods in this one
	Level             string   // Pod Security level of that namespace
	Offloaded         string   // namespace that is offloaded

	RuntimeClass string
}

// paths are the API paths of the types of objects in the manifests; %s is the namespace.
var paths = map[string]string{
	"Namespace":          "/api/v1/namespaces",
	"ServiceAccount":     "/api/v1/namespaces/%s/serviceaccounts",
	"Service":            "/api/v1/namespaces/%s/services",
	"Role":               "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles",
	"RoleBinding":        "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
	"ClusterRole":        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"ResourceQuota":      "/api/v1/namespaces/%s/resourcequotas",
	"LimitRange":         "/api/v1/namespaces/%s/limitranges",
	"NetworkPolicy":      "/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies",
	"Deployment":         "/apis/apps/v1/namespaces/%s/deployments",
	"RuntimeClass":       "/apis/node.k8s.io/v1/runtimeclasses",
}

type object struct {
	kind, name, path string
	text             []byte
}

func objects(manifest string, v values) (all []object, err error) {
	var text bytes.Buffer
	if err := manifests.ExecuteTemplate(&text, manifest, v); err != nil {
		return nil, err
	}
	for document := range strings.SplitSeq(text.String(), "\n---\n") {
		var is struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		if err := yaml.Unmarshal([]byte(document), &is); err != nil {
			return nil, fmt.Errorf("%s: %w", manifest, err)
		}
		path := paths[is.Kind]
		if strings.Contains(path, "%s") {
			path = fmt.Sprintf(path, is.Metadata.Namespace)
		}
		all = append(all, object{is.Kind, is.Metadata.Name, path + "/" + is.Metadata.Name, []byte(document)})
	}
	return all, nil
}

// Plan are objects that a command applies, in this order.
type Plan []object

func (p *Plan) add(v values, names ...string) error {
	for _, manifest := range names {
		all, err := objects(manifest, v)
		if err != nil {
			return err
		}
		*p = append(*p, all...)
	}
	return nil
}

func (p Plan) apply(ctx context.Context, c operator.Cluster) error {
	for _, o := range p {
		if err := c.Client.ApplyYAML(ctx, o.path, o.text, manager); err != nil {
			return c.Failed("apply "+o.kind+" "+o.name, err)
		}
	}
	return nil
}

// YAML returns the objects as documents for kubectl apply.
func (p Plan) YAML() string {
	var all strings.Builder
	for _, o := range p {
		fmt.Fprintf(&all, "---\n%s\n", bytes.TrimSpace(o.text))
	}
	return all.String()
}

// remove deletes the objects of a manifest, the last one first, but no namespace.
func remove(ctx context.Context, c operator.Cluster, manifest string, v values) error {
	all, err := objects(manifest, v)
	if err != nil {
		return err
	}
	for _, o := range slices.Backward(all) {
		if o.kind == "Namespace" {
			continue
		}
		if err := operator.UnlessMissing(c.Client.DeletePath(ctx, o.path)); err != nil {
			return c.Failed("delete "+o.kind+" "+o.name, err)
		}
	}
	return nil
}
