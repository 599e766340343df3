package network

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

// Facts are what the API server reports about the cluster apart from its nodes. Unknown
// values are empty.
type Facts struct {
	clusterID       v1alpha1.ClusterID
	clusterIDSource v1alpha1.Source

	serviceCIDRs []string       // of the ServiceCIDR objects
	kubeadm      kubeadmNetwork // of the ConfigMap kubeadm-config
	clusterCIDR  []string       // of a flag of kube-controller-manager
	serviceRange []string       // of a flag of kube-apiserver
	apiServers   []string       // addresses
}

type kubeadmNetwork struct {
	PodSubnet     string `json:"podSubnet"`
	ServiceSubnet string `json:"serviceSubnet"`
}

// Gather reads the facts from the API server. of is the ClusterNetwork, with the status so
// far. A source that does not exist or may not be
// read is skipped; any other failure is an error, so that an API server in trouble is never
// mistaken for another cluster.
func Gather(ctx context.Context, c *client.Client, of *v1alpha1.ClusterNetwork, log *slog.Logger) (f Facts, err error) {
	system, err := c.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return f, fmt.Errorf("namespace kube-system: %w", err)
	}
	if f.clusterID, f.clusterIDSource, err = clusterID(ctx, c, of, string(system.UID), log); err != nil {
		return f, err
	}

	services, err := c.ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err := unlessMissing(err, "ServiceCIDRs", log); err != nil {
		return f, err
	}
	for _, s := range services.Items {
		f.serviceCIDRs = append(f.serviceCIDRs, s.Spec.CIDRs...)
	}

	kubeadm, err := c.ConfigMaps(metav1.NamespaceSystem).Get(ctx, "kubeadm-config", metav1.GetOptions{})
	if err := unlessMissing(err, "ConfigMap kube-system/kubeadm-config", log); err != nil {
		return f, err
	}
	f.kubeadm = readKubeadm(kubeadm.Data["ClusterConfiguration"])

	pods, err := c.Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{
		LabelSelector: "component in (kube-apiserver,kube-controller-manager)",
	})
	if err := unlessMissing(err, "control plane pods in kube-system", log); err != nil {
		return f, err
	}
	f.clusterCIDR = flagOf(pods.Items, "kube-controller-manager", "--cluster-cidr")
	f.serviceRange = flagOf(pods.Items, "kube-apiserver", "--service-cluster-ip-range")

	endpoints, err := c.EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		LabelSelector: "kubernetes.io/service-name=kubernetes",
	})
	if err := unlessMissing(err, "EndpointSlices of Service default/kubernetes", log); err != nil {
		return f, err
	}
	for _, slice := range endpoints.Items {
		for _, endpoint := range slice.Endpoints {
			f.apiServers = append(f.apiServers, endpoint.Addresses...)
		}
	}
	return f, nil
}

func unlessMissing(err error, source string, log *slog.Logger) error {
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		log.Warn("not allowed to read a source of the cluster's CIDRs; grant the rules of package rbac, or set the CIDRs in ClusterNetwork default",
			"source", source, "error", err)
		return nil
	}
	return fmt.Errorf("%s: %w", source, err)
}

// readKubeadm parses a ClusterConfiguration. Invalid text yields an empty result.
func readKubeadm(text string) kubeadmNetwork {
	var configuration struct {
		Networking kubeadmNetwork `json:"networking"`
	}
	if err := yaml.Unmarshal([]byte(text), &configuration); err != nil {
		return kubeadmNetwork{}
	}
	return configuration.Networking
}

// flagOf returns the value, a list, of a command-line flag of a control plane component,
// from the first pod that has it.
func flagOf(pods []corev1.Pod, component, flag string) []string {
	for _, pod := range pods {
		if pod.Labels["component"] != component {
			continue
		}
		for _, container := range pod.Spec.Containers {
			arguments := slices.Concat(container.Command, container.Args)
			for i, argument := range arguments {
				if value, ok := strings.CutPrefix(argument, flag+"="); ok {
					return commaList(value)
				}
				if argument == flag && i+1 < len(arguments) {
					return commaList(arguments[i+1])
				}
			}
		}
	}
	return nil
}

// commaList splits a list like 10.0.0.0/16,fd00:10::/56.
func commaList(text string) (items []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// Detected returns the ClusterNetwork that a controller would create, with its status: with
// the spec of an existing one, or else an empty spec. It only reads; Strait need not be
// installed.
func Detected(ctx context.Context, c *client.Client) (*v1alpha1.ClusterNetwork, error) {
	log := slog.New(slog.DiscardHandler)
	list, err := c.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	nodes := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	object := &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName}, Spec: defaults()}
	is, err := c.ClusterNetworks().Get(ctx, v1alpha1.ClusterNetworkName, metav1.GetOptions{})
	if err := unlessMissing(err, "ClusterNetwork "+v1alpha1.ClusterNetworkName, log); err != nil {
		return nil, err
	}
	if is != nil && is.UID != "" {
		object.Spec, object.Status = is.Spec, is.Status
	}
	f, err := Gather(ctx, c, object, log)
	if err != nil {
		return nil, fmt.Errorf("detect the CIDRs of the cluster: %w", err)
	}
	object.Status = New(object.Spec, Detect(object.Spec, f, nodes)).Status(object)
	return object, nil
}

// defaults returns the spec that the API server makes of an empty one.
func defaults() v1alpha1.ClusterNetworkSpec {
	return v1alpha1.ClusterNetworkSpec{
		InternalCIDRs: []v1alpha1.CIDR{"10.80.0.0/16", "fd73:7472:80::/64"},
		ExternalCIDRs: []v1alpha1.CIDR{"10.70.0.0/16"},
		RemapPools:    []v1alpha1.CIDR{"10.64.0.0/10", "fd73:7472::/32"},
	}
}
