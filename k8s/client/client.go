// Package client reads, writes and watches the objects of strait.dev/v1alpha1, and the
// Kubernetes objects that Strait uses.
//
//	config, err := client.Config("")           // in the cluster
//	c, err := client.New(config)
//	peerings := c.Peerings().Cache("")         // all of them
//	go peerings.RunWithContext(ctx)
//	cache.WaitForCacheSync(ctx.Done(), peerings.HasSynced)
//	b, ok := peerings.Get("b")
//
// It is client-go without its generated clients: these register every Kubernetes type,
// which costs each process 17 MiB of memory and 40 MB of binary size.
package client

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/cilium"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// Client is a client of one cluster's API server. It is safe for concurrent use.
type Client struct {
	config    *rest.Config // of connections that carry streams
	groups    map[schema.GroupVersion]*rest.RESTClient
	parameter runtime.ParameterCodec
	dryRun    []string // of all requests that write; nil: they are stored
}

// DryRun returns a client whose creates, updates, patches, applies and deletes are checked
// and admitted by the API server and not stored (dryRun=All). It shares connections with c.
func (c *Client) DryRun() *Client {
	dry := *c
	dry.dryRun = []string{metav1.DryRunAll}
	return &dry
}

// Default request rate per second and burst. client-go's own 5 and 10 would delay a
// controller of 1 000 nodes for minutes.
const (
	qps   = 200
	burst = 400
)

var groupVersions = []struct {
	version schema.GroupVersion
	add     func(*runtime.Scheme) error
}{
	{v1alpha1.GroupVersion, v1alpha1.AddToScheme},
	{corev1.SchemeGroupVersion, corev1.AddToScheme},
	{appsv1.SchemeGroupVersion, appsv1.AddToScheme},
	{authenticationv1.SchemeGroupVersion, authenticationv1.AddToScheme},
	{authorizationv1.SchemeGroupVersion, authorizationv1.AddToScheme},
	{coordinationv1.SchemeGroupVersion, coordinationv1.AddToScheme},
	{discoveryv1.SchemeGroupVersion, discoveryv1.AddToScheme},
	{networkingv1.SchemeGroupVersion, networkingv1.AddToScheme},
	{policyv1.SchemeGroupVersion, policyv1.AddToScheme},
	{mcsVersion, mcsv1beta1.Install},
	{cilium.GroupVersion, cilium.AddToScheme},
	{rbacv1.SchemeGroupVersion, rbacv1.AddToScheme},
}

// New returns a client. It sends no requests yet. config is not changed.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS, config.Burst = qps, burst
	}
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	if config.RateLimiter == nil && config.QPS > 0 {
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
	}
	config.Wrap(noWatchRetry)
	connections, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("configure the API client: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, group := range groupVersions {
		if err := group.add(scheme); err != nil {
			return nil, fmt.Errorf("configure the API client: %w", err)
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // for Status objects
	c := &Client{config: config, groups: make(map[schema.GroupVersion]*rest.RESTClient), parameter: runtime.NewParameterCodec(scheme)}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	for _, group := range groupVersions {
		if c.groups[group.version], err = restClient(config, connections, codecs, group.version); err != nil {
			return nil, fmt.Errorf("configure the API client: %w", err)
		}
	}
	return c, nil
}

// restClient returns a client of one API group. All share their connections and one rate
// limit.
func restClient(config *rest.Config, connections *http.Client, codecs runtime.NegotiatedSerializer, version schema.GroupVersion) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.NegotiatedSerializer = &version, codecs
	config.APIPath = "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	if version != v1alpha1.GroupVersion && version != mcsVersion && version != cilium.GroupVersion { // custom resources support only JSON
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	return rest.RESTClientForConfigAndClient(config, connections)
}

// Config returns the configuration of the kubeconfig file at path, with its current
// context, or that of the pod in which this process runs if path is empty.
func Config(path string) (*rest.Config, error) {
	if path == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no service account found; run in a pod that has one, or set --kubeconfig: %w", err)
		}
		return config, nil
	}
	if err := checkFile(path); err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w; correct the file, or name another", path, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	var at *fs.PathError
	if errors.As(err, &at) {
		return nil, fmt.Errorf("--kubeconfig %s: %w; check the path", path, at.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", path, err)
	}
	return config, nil
}
