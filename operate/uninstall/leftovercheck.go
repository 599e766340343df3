package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/services"
	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/translate"
	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/offload"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/operate/preflight"
)

// Check finds leftovers of Strait in a cluster: in its objects, and, with pods of an image,
// on every node. Without an image, nodes are skipped. It waits at most the given time for
// objects that are being deleted. The error lists pods that were not removed.
func Check(ctx context.Context, c operator.Cluster, image string, wait time.Duration, say func(string)) ([]findings.Finding, error) {
	say("checking the objects of " + c.Name)
	all, deleting := objectFindings(ctx, c)
	for end := time.Now().Add(wait); deleting != "" && time.Now().Before(end); all, deleting = objectFindings(ctx, c) {
		say("waiting until the API server has deleted " + deleting)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pollInterval):
		}
	}
	if image == "" {
		all = append(all, findings.New("STRAIT-L005", findings.Skipped, c.Name, "nodes were not checked: pods are disabled"))
		findings.Sort(all)
		return all, nil
	}
	say("inspecting the nodes of " + c.Name)
	reports, missing, err := preflight.InspectNodes(ctx, c, "uninstall", image, say)
	switch {
	case preflight.Refused(err):
		all, err = append(all, findings.New("STRAIT-L005", findings.Skipped, c.Name, "nodes were not checked: the cluster refuses pods with the privileges of a node helper: %v", err)), nil
	case reports == nil && err != nil:
		all, err = append(all, findings.New("STRAIT-C012", findings.Error, c.Name, "pods of image %s do not run, so nodes were not inspected: %v", image, err)), nil
	case missing > 0:
		all = append(all, findings.New("STRAIT-N011", findings.Warning, c.Name, "%d nodes were not checked: they are not ready, or not Linux", missing))
	}
	for _, s := range reports {
		all = append(all, nodeFindings(c.Name, s)...)
	}
	findings.Sort(all)
	return all, err
}

func nodeFindings(cluster string, s preflight.NodeReport) (all []findings.Finding) {
	subject := fmt.Sprintf("%s, node %s", cluster, s.Node)
	if s.Err != nil {
		return []findings.Finding{findings.New("STRAIT-N011", findings.Error, subject, "%v", s.Err)}
	}
	for _, one := range []struct {
		code, none string
		left       []string
	}{
		{"STRAIT-L005", "no link named cni-strait*", s.Is.Ours.Links},
		{"STRAIT-L006", "no route, rule or nexthop of protocol 91", slices.Concat(s.Is.Ours.Routes, s.Is.Ours.Rules, s.Is.Ours.Nexthops)},
		{"STRAIT-L007", "no nftables table strait", tables(s.Is.Ours.Table)},
	} {
		if len(one.left) > 0 {
			all = append(all, findings.New(one.code, findings.Error, subject, "found %s", preflight.ShortList(one.left)))
		} else {
			all = append(all, findings.New(one.code, findings.OK, subject, "%s", one.none))
		}
	}
	return all
}

func tables(there bool) []string {
	if there {
		return []string{"inet strait"}
	}
	return nil
}

// Label selectors of Strait's objects.
const (
	everything  = ""
	straitLabel = install.NameLabel + "=" + install.Name
	offloading  = translate.PeeringLabel // strait unborrow and strait unlend remove them
)

// resourceTypes are the resource types to check, with a filter for Strait's objects.
var resourceTypes = []struct {
	code     string
	kind     string
	of       schema.GroupVersionResource
	selector string
	is       func(metav1.ObjectMeta) bool
}{
	{"STRAIT-L001", "CustomResourceDefinition", resource("apiextensions.k8s.io", "v1", "customresourcedefinitions"), everything, func(m metav1.ObjectMeta) bool { return strings.HasSuffix(m.Name, ".strait.dev") }},
	{"STRAIT-L002", "ClusterRole", resource("rbac.authorization.k8s.io", "v1", "clusterroles"), everything, named},
	{"STRAIT-L002", "ClusterRoleBinding", resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings"), everything, named},
	{"STRAIT-L003", "Namespace", resource("", "v1", "namespaces"), everything, namespace},
	{"STRAIT-L004", "Node", resource("", "v1", "nodes"), offloading, every},
	{"STRAIT-L004", "RuntimeClass", resource("node.k8s.io", "v1", "runtimeclasses"), offloading, every},
	{"STRAIT-L004", "PodTemplate", resource("", "v1", "podtemplates"), offloading, every},
	{"STRAIT-L004", "Pod", resource("", "v1", "pods"), offloading, every},
	{"STRAIT-L004", "ConfigMap", resource("", "v1", "configmaps"), offloading, every},
	{"STRAIT-L004", "Secret", resource("", "v1", "secrets"), offloading, every},
	{"STRAIT-L004", "Service", resource("", "v1", "services"), offloading, every},
	{"STRAIT-L004", "EndpointSlice", resource("discovery.k8s.io", "v1", "endpointslices"), offloading, every},
	{"STRAIT-L004", "Role", resource("rbac.authorization.k8s.io", "v1", "roles"), offloading, every},
	{"STRAIT-L004", "RoleBinding", resource("rbac.authorization.k8s.io", "v1", "rolebindings"), offloading, every},
	{"STRAIT-L004", "ResourceQuota", resource("", "v1", "resourcequotas"), offloading, every},
	{"STRAIT-L004", "LimitRange", resource("", "v1", "limitranges"), offloading, every},
	{"STRAIT-L004", "NetworkPolicy", resource("networking.k8s.io", "v1", "networkpolicies"), offloading, every},
	{"STRAIT-L004", "Deployment", resource("apps", "v1", "deployments"), straitLabel, every},
	{"STRAIT-L004", "DaemonSet", resource("apps", "v1", "daemonsets"), straitLabel, every},
	{"STRAIT-L004", "StatefulSet", resource("apps", "v1", "statefulsets"), straitLabel, every},
	{"STRAIT-L004", "Pod", resource("", "v1", "pods"), straitLabel, every},
	{"STRAIT-L004", "Service", resource("", "v1", "services"), straitLabel, every},
	{"STRAIT-L004", "ServiceImport", resource("multicluster.x-k8s.io", "v1beta1", "serviceimports"), services.ImportLabel, every},
	{"STRAIT-L004", "Service", resource("", "v1", "services"), services.ImportLabel, every},
	{"STRAIT-L004", "EndpointSlice", resource("discovery.k8s.io", "v1", "endpointslices"), services.ImportLabel, every},
	{"STRAIT-L004", "ExportedService", resource("strait.dev", "v1alpha1", "exportedservices"), everything, every},
	{"STRAIT-L004", "ReceivedService", resource("strait.dev", "v1alpha1", "receivedservices"), everything, every},
	{"STRAIT-L004", "Secret", resource("", "v1", "secrets"), straitLabel, every},
	{"STRAIT-L004", "ConfigMap", resource("", "v1", "configmaps"), straitLabel, every},
	{"STRAIT-L004", "ServiceAccount", resource("", "v1", "serviceaccounts"), straitLabel, every},
	{"STRAIT-L004", "Role", resource("rbac.authorization.k8s.io", "v1", "roles"), straitLabel, every},
	{"STRAIT-L004", "RoleBinding", resource("rbac.authorization.k8s.io", "v1", "rolebindings"), straitLabel, every},
	{"STRAIT-L004", "NetworkPolicy", resource("networking.k8s.io", "v1", "networkpolicies"), straitLabel, every},
	{"STRAIT-L004", "PodDisruptionBudget", resource("policy", "v1", "poddisruptionbudgets"), straitLabel, every},
	{"STRAIT-L004", "Lease", resource("coordination.k8s.io", "v1", "leases"), everything, func(m metav1.ObjectMeta) bool { return m.Name == install.ControllerName }},
}

func resource(group, version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

func every(metav1.ObjectMeta) bool { return true }

func named(m metav1.ObjectMeta) bool { return strings.HasPrefix(m.Name, "strait-") }

// namespace reports whether a namespace is created or labelled by Strait: by the chart, or by a
// command. The namespace of the release is created by the user.
func namespace(m metav1.ObjectMeta) bool {
	_, agents := m.Labels["strait.dev/agents"]
	_, lent := m.Labels[translate.PeeringLabel]
	_, offloaded := m.Labels[borrower.OffloadLabel]
	return agents || lent || offloaded || m.Name == offload.Namespace || m.Name == install.GatewayNamespace || m.Name == install.NodeNamespace
}

// keepAnnotation makes Helm keep an object that its release no longer contains.
const keepAnnotation = "helm.sh/resource-policy"

// objectFindings returns the findings about objects, and one object that is being deleted,
// if there are any.
func objectFindings(ctx context.Context, c operator.Cluster) (all []findings.Finding, deleting string) {
	left, kept, refused := make(map[string][]string), make(map[string][]string), make(map[string][]string)
	for _, r := range resourceTypes {
		objects, err := c.Client.Metadata(ctx, r.of, r.selector)
		switch {
		case apierrors.IsForbidden(err):
			if !slices.Contains(refused[r.code], r.of.Resource) {
				refused[r.code] = append(refused[r.code], r.of.Resource)
			}
			continue
		case err != nil:
			return append(all, findings.New("STRAIT-C001", findings.Error, c.Name, "%v", c.Failed("list "+r.of.Resource, err))), ""
		}
		for _, m := range objects {
			if !r.is(m) {
				continue
			}
			name := r.kind + " " + strings.TrimPrefix(m.Namespace+"/"+m.Name, "/")
			switch {
			case m.DeletionTimestamp != nil:
				deleting = name
				left[r.code] = append(left[r.code], name+" (being deleted)")
			case m.Annotations[keepAnnotation] == "keep":
				kept[r.code] = append(kept[r.code], name)
			default:
				left[r.code] = append(left[r.code], name)
			}
		}
	}
	for _, code := range []string{"STRAIT-L001", "STRAIT-L002", "STRAIT-L003", "STRAIT-L004"} {
		switch {
		case len(left[code]) > 0:
			all = append(all, findings.New(code, findings.Error, c.Name, "found %s", preflight.ShortList(left[code])))
		case len(kept[code]) > 0:
			all = append(all, findings.New(code, findings.Info, c.Name, "Helm kept %s, with all their objects (value crds.keep)", preflight.ShortList(kept[code])))
		case len(refused[code]) > 0:
			all = append(all, findings.New(code, findings.Skipped, c.Name, "not checked for lack of permissions: %s", strings.Join(refused[code], ", ")))
		default:
			all = append(all, findings.New(code, findings.OK, c.Name, "no leftovers"))
		}
	}
	return all, deleting
}
