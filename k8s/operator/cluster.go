package operator

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

// Manager is the field manager of what the commands apply.
const Manager = "strait-cli"

// DefaultTimeout is how long an API server may take to answer one request.
const DefaultTimeout = 10 * time.Second

// Cluster is a cluster that a command may talk to.
type Cluster struct {
	Name   string // for people: as in "context a"
	Client *client.Client

	Timeout time.Duration // of one request; 0: DefaultTimeout
	Changed func(Change)  // called after each write; nil: not called
}

// within returns a context for one request.
func (c Cluster) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(c.Timeout, DefaultTimeout))
}

// Failed is an error of a request, with the remedy where one is known.
func (c Cluster) Failed(what string, err error) error {
	var at net.Error
	var to *url.Error
	var distrust *tls.CertificateVerificationError
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: %s: the API server does not know who asks; log in again, or choose another context: %w", c.Name, what, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %s: %w; use a context of somebody who may", c.Name, what, err)
	case errors.As(err, &distrust):
		return fmt.Errorf("%s: the API server has a certificate that is not trusted; see whether the context is the right one, and its kubeconfig the cluster's latest: %w", c.Name, distrust.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: the API server cannot be reached; see whether the context is the right one, and whether kubectl reaches it: no answer after %v (%w)", c.Name, cmp.Or(c.Timeout, DefaultTimeout), context.DeadlineExceeded)
	case errors.As(err, &to): // its own text repeats the request
		return fmt.Errorf("%s: the API server cannot be reached; see whether the context is the right one, and whether kubectl reaches it: %w", c.Name, to.Err)
	case errors.As(err, &at):
		return fmt.Errorf("%s: the API server cannot be reached; see whether the context is the right one, and whether kubectl reaches it: %w", c.Name, err)
	}
	return fmt.Errorf("%s: %s: %w", c.Name, what, err)
}

// Network is the ClusterNetwork, once the controller has said what the cluster is.
func (c Cluster) Network(ctx context.Context) (*v1alpha1.ClusterNetwork, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	// A list tells a kind that is missing from an object that is.
	list, err := c.Client.ClusterNetworks().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s: the API server does not know Strait's kinds: its CRDs are not installed; install Strait in that cluster first", c.Name)
	case err != nil:
		return nil, c.Failed("read ClusterNetworks", err)
	}
	for i := range list.Items {
		if n := &list.Items[i]; n.Name == v1alpha1.ClusterNetworkName && n.Status.ClusterID != "" {
			return n, nil
		}
	}
	return nil, fmt.Errorf("%s: the controller has not said yet what the cluster is: the status of ClusterNetwork %s is missing; "+
		"see whether strait controller runs, and what it logs",
		c.Name, v1alpha1.ClusterNetworkName)
}

// usable is why nothing can be joined to a cluster yet, nil if something can.
func (c Cluster) usable(n *v1alpha1.ClusterNetwork) error {
	for _, t := range []string{v1alpha1.ConditionDetected, v1alpha1.ConditionReady} {
		if condition := meta.FindStatusCondition(n.Status.Conditions, t); condition != nil && condition.Status == metav1.ConditionFalse {
			return fmt.Errorf("%s: ClusterNetwork %s is not ready: %s", c.Name, n.Name, condition.Message)
		}
	}
	return nil
}

// peering is the Peering with that name, nil if there is none.
func (c Cluster) peering(ctx context.Context, name string) (*v1alpha1.Peering, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	p, err := c.Client.Peerings().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, c.Failed("read Peering "+name, err)
	}
	return p, nil
}

// Peerings are all of the cluster, by name.
func (c Cluster) Peerings(ctx context.Context) ([]v1alpha1.Peering, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	list, err := c.Client.Peerings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, c.Failed("read Peerings", err)
	}
	return list.Items, nil
}
