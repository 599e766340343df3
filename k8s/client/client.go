// Package client reads, writes and watches the objects of strait.dev/v1alpha1.
//
//	config, err := client.Config("")           // in the cluster
//	c, err := client.New(config)
//	peerings := c.Peerings().Cache("")         // all of them
//	go peerings.RunWithContext(ctx)
//	cache.WaitForCacheSync(ctx.Done(), peerings.HasSynced)
//	b, ok := peerings.Get("b")
//
// It is client-go with our types in place of generated code.
package client

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Client is a client of one cluster's API server. It may be used concurrently.
type Client struct {
	// Kubernetes is for the objects that every cluster has.
	Kubernetes kubernetes.Interface

	ours      *rest.RESTClient
	parameter runtime.ParameterCodec
}

// Requests each second, on average and at once, where the configuration does not say.
// client-go's own 5 and 10 would make a controller of 1 000 nodes wait for minutes.
const (
	qps   = 200
	burst = 400
)

// New makes a client. Nothing is asked of the API server yet. The configuration is not
// changed.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS, config.Burst = qps, burst
	}
	connections, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	core, err := kubernetes.NewForConfigAndClient(config, connections)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}

	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	config.APIPath = "/apis"
	config.GroupVersion = &v1alpha1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	ours, err := rest.RESTClientForConfigAndClient(config, connections)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &Client{Kubernetes: core, ours: ours, parameter: runtime.NewParameterCodec(scheme)}, nil
}

// Config is the configuration in the kubeconfig file at path, in its current context,
// or that of the pod which this process runs in if path is empty.
func Config(path string) (*rest.Config, error) {
	if path == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("client: no service account found; run in a pod that has one, or name a kubeconfig file with --kubeconfig: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("client: --kubeconfig %s: %w", path, err)
	}
	return config, nil
}

// ClusterNetworks are those of the cluster: there is one at most.
func (c *Client) ClusterNetworks() *Kind[*v1alpha1.ClusterNetwork, *v1alpha1.ClusterNetworkList] {
	return kindOf[v1alpha1.ClusterNetwork, v1alpha1.ClusterNetworkList](c, "ClusterNetwork", "clusternetworks")
}

// Peerings are those of the cluster.
func (c *Client) Peerings() *Kind[*v1alpha1.Peering, *v1alpha1.PeeringList] {
	return kindOf[v1alpha1.Peering, v1alpha1.PeeringList](c, "Peering", "peerings")
}

// NodeAttachments are those of the cluster.
func (c *Client) NodeAttachments() *Kind[*v1alpha1.NodeAttachment, *v1alpha1.NodeAttachmentList] {
	return kindOf[v1alpha1.NodeAttachment, v1alpha1.NodeAttachmentList](c, "NodeAttachment", "nodeattachments")
}

// AddressClaims are those of the cluster.
func (c *Client) AddressClaims() *Kind[*v1alpha1.AddressClaim, *v1alpha1.AddressClaimList] {
	return kindOf[v1alpha1.AddressClaim, v1alpha1.AddressClaimList](c, "AddressClaim", "addressclaims")
}

// AddressMappings are those of the cluster.
func (c *Client) AddressMappings() *Kind[*v1alpha1.AddressMapping, *v1alpha1.AddressMappingList] {
	return kindOf[v1alpha1.AddressMapping, v1alpha1.AddressMappingList](c, "AddressMapping", "addressmappings")
}
