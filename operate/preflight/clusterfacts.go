package preflight

import (
	"context"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/network"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/agents"
	"strait.dev/strait/operate/operator"
)

// facts is the state of a cluster from its API server.
type facts struct {
	name        string // of the cluster, for messages
	version     string // of the API server, like v1.36.3
	clock       time.Time
	skew        time.Duration // of its clock relative to the local clock; see also uncertainty
	uncertainty time.Duration // of the skew
	systemUID   string
	nodes       []corev1.Node
	network     *v1alpha1.ClusterNetwork // as Strait would detect it
	unknown     string                   // why network is not known
	installed   *v1alpha1.ClusterNetwork // of an installed Strait, nil if none
	image       string                   // of the installed Strait
	daemonSets  []appsv1.DaemonSet
	settings    map[string]map[string]string // of network plugins: ConfigMaps of kube-system, by name
	namespaces  map[string]*corev1.Namespace // existing namespaces of the chart
	cilium      bool                         // it has CiliumNetworkPolicies

	felix         *felixConfiguration // of Calico; nil: not known
	ipPools       []string            // CIDRs of Calico's IPPools
	gatewayConfig *gatewayConfig      // of OVN-Kubernetes on OpenShift, otherwise nil
	openShift     *openShiftNetwork   // nil: not OpenShift

	services []corev1.Service
	pods     []corev1.Pod    // the first page
	leftover []string        // namespaces of earlier commands
	denied   map[topic]error // errors of reads

	withoutHelpers bool // Strait is or is going to be installed without node helpers
}

// topic is a resource that is read.
type topic string

const (
	aboutSystem     topic = "namespace kube-system"
	aboutNodes      topic = "nodes"
	aboutStrait     topic = "ClusterNetworks and pods"
	aboutDaemonSets topic = "DaemonSets"
	aboutSettings   topic = "ConfigMaps of kube-system"
	aboutNamespaces topic = "namespaces"
	aboutServices   topic = "Services"
	aboutPods       topic = "pods"
)

// chartNamespaces are the namespaces of the chart, with the Pod Security level that each
// has to allow.
var chartNamespaces = map[string]string{
	install.Namespace: "restricted", install.GatewayNamespace: "restricted", install.NodeNamespace: "privileged",
}

// pluginSettings are ConfigMaps in kube-system with settings of network plugins.
var pluginSettings = []string{"cilium-config"}

// read reads the facts from the API server. Resources that may not be read are skipped and
// recorded; an error is returned only if the first request fails, which every account may
// make.
func read(ctx context.Context, c operator.Cluster) (*facts, error) {
	f := &facts{name: c.Name, settings: make(map[string]map[string]string), namespaces: make(map[string]*corev1.Namespace), denied: make(map[topic]error)}
	if err := c.Reach(ctx); err != nil {
		return nil, err
	}
	before := time.Now()
	version, clock, err := c.Client.Version(ctx)
	if err != nil {
		return nil, c.Failed("read the version", err)
	}
	f.version, f.clock = version.GitVersion, clock
	f.skew, f.uncertainty = offset(before, time.Now(), clock)
	f.uncertainty += time.Second // HTTP dates have a resolution of one second
	note := func(about topic, err error) bool {
		if err != nil && !apierrors.IsNotFound(err) {
			f.denied[about] = err
		}
		return err == nil
	}
	if system, err := c.Client.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{}); note(aboutSystem, err) {
		f.systemUID = string(system.UID)
	}
	if list, err := c.Client.Nodes().List(ctx, metav1.ListOptions{}); note(aboutNodes, err) {
		f.nodes = list.Items
	}
	if f.network, err = network.Detected(ctx, c.Client); err != nil {
		f.unknown = err.Error()
	}
	if is, err := c.Client.ClusterNetworks().Get(ctx, v1alpha1.ClusterNetworkName, metav1.GetOptions{}); note(aboutStrait, err) {
		f.installed = is
	}
	image, err := agents.Image(ctx, c.Client) // other errors mean that there is none
	if f.image = image; apierrors.IsForbidden(err) {
		f.denied[aboutStrait] = err
	}
	if list, err := c.Client.DaemonSets("").List(ctx, metav1.ListOptions{}); note(aboutDaemonSets, err) {
		f.daemonSets = list.Items
		f.withoutHelpers = f.image != "" && !f.helperInstalled()
	}
	for _, name := range pluginSettings {
		if is, err := c.Client.ConfigMaps(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{}); note(aboutSettings, err) {
			f.settings[name] = is.Data
		}
	}
	for name := range chartNamespaces {
		if is, err := c.Client.Namespaces().Get(ctx, name, metav1.GetOptions{}); note(aboutNamespaces, err) {
			f.namespaces[name] = is
		}
	}
	if _, err := c.Client.CiliumNetworkPolicies(install.GatewayNamespace).List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
		f.cilium = true
	}
	f.readPluginResources(ctx, c.Client)
	if list, err := c.Client.Services("").List(ctx, metav1.ListOptions{}); note(aboutServices, err) {
		f.services = list.Items
	}
	if list, err := c.Client.Pods("").List(ctx, metav1.ListOptions{Limit: podsChecked}); note(aboutPods, err) {
		f.pods = list.Items
	}
	if left, err := agents.Leftover(ctx, c.Client); note(aboutNamespaces, err) {
		f.leftover = left
	}
	return f, nil
}

// offset returns the skew of a clock that was read between two local times, and its
// uncertainty.
func offset(before, after, clock time.Time) (skew, uncertainty time.Duration) {
	uncertainty = after.Sub(before) / 2
	return clock.Sub(before.Add(uncertainty)), uncertainty
}

// hasProvider reports whether a node is of a provider, by the scheme of its providerID.
func (f *facts) hasProvider(scheme string) bool {
	return slices.ContainsFunc(f.nodes, func(n corev1.Node) bool { return strings.HasPrefix(n.Spec.ProviderID, scheme+"://") })
}
