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
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
)

// Manager is the field manager of objects that the commands apply.
const Manager = "strait-cli"

// DefaultTimeout is the timeout of one request to an API server.
const DefaultTimeout = 10 * time.Second

// Cluster is a cluster that a command accesses.
type Cluster struct {
	Name   string // for messages, like "context a"
	Client *client.Client

	Timeout time.Duration // of one request; 0: DefaultTimeout
	Changed func(Change)  // called after each write; nil: not called
}

// Clusters returns the local cluster, and the remote one unless it is nil.
func Clusters(local Cluster, remote *Cluster) []Cluster {
	if remote == nil {
		return []Cluster{local}
	}
	return []Cluster{local, *remote}
}

func (c Cluster) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, cmp.Or(c.Timeout, DefaultTimeout))
}

// Reach returns an error unless the API server answers within the timeout of a request, and
// does not refuse the credentials. Commands call it first, so that an unreachable API server
// is reported at once and in the same words, whatever a command does next.
func (c Cluster) Reach(ctx context.Context) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	_, err := c.Client.Raw(ctx, "/version")
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && !apierrors.IsUnauthorized(err) {
		return nil // an account need not be permitted to read the version
	}
	return c.Failed("read the version", err)
}

// Failed returns the error of a request with a remedy, if one is known.
func (c Cluster) Failed(what string, err error) error {
	var at net.Error
	var to *url.Error
	var distrust *tls.CertificateVerificationError
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: %s: not authenticated; log in again, or select another context: %w", c.Name, what, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %s: %w; use a context with the necessary permissions", c.Name, what, err)
	case errors.As(err, &distrust):
		return fmt.Errorf("%s: the certificate of the API server is not trusted; check that the context is the right one and its kubeconfig is up to date: %w", c.Name, distrust.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: the API server cannot be reached; check that the context is the right one and that kubectl reaches it: no answer after %v (%w)", c.Name, cmp.Or(c.Timeout, DefaultTimeout), context.DeadlineExceeded)
	case errors.As(err, &to): // its own text repeats the request
		return fmt.Errorf("%s: the API server cannot be reached; check that the context is the right one and that kubectl reaches it: %w", c.Name, to.Err)
	case errors.As(err, &at):
		return fmt.Errorf("%s: the API server cannot be reached; check that the context is the right one and that kubectl reaches it: %w", c.Name, err)
	}
	return fmt.Errorf("%s: %s: %w", c.Name, what, err)
}

// Network returns the ClusterNetwork, once the controller has reported its status.
func (c Cluster) Network(ctx context.Context) (*v1alpha1.ClusterNetwork, error) {
	n, missing, err := c.network(ctx)
	if err == nil && missing != "" {
		err = errors.New(missing)
	}
	return n, err
}

// network returns the ClusterNetwork, or what is missing while the controller has not
// reported its status.
func (c Cluster) network(ctx context.Context) (n *v1alpha1.ClusterNetwork, missing string, err error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	// Unlike a get, a list distinguishes a missing CRD from a missing object.
	list, err := c.Client.ClusterNetworks().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, "", fmt.Errorf("%s: Strait's CRDs are not installed; install Strait in that cluster first", c.Name)
	case err != nil:
		return nil, "", c.Failed("read ClusterNetworks", err)
	}
	for i := range list.Items {
		if n := &list.Items[i]; n.Name == v1alpha1.ClusterNetworkName && n.Status.ClusterID != "" {
			return n, "", nil
		}
	}
	return nil, fmt.Sprintf("%s: the controller has not reported the status of ClusterNetwork %s yet; "+
		"check that strait controller runs, and its log",
		c.Name, v1alpha1.ClusterNetworkName), nil
}

// joinable returns the ClusterNetworks of clusters that can be joined. After an installation
// or a change of a ClusterNetwork, it waits for the controller: until then the cluster ID and
// CIDRs in the status are missing, or not those that the user has set.
func joinable(ctx context.Context, w Waiting, clusters ...Cluster) ([]*v1alpha1.ClusterNetwork, error) {
	networks := make([]*v1alpha1.ClusterNetwork, len(clusters))
	look := func(ctx context.Context) (first string, err error) {
		for i, c := range clusters { // all of them: an error of one ends the wait for another
			n, missing, err := c.joinableNetwork(ctx)
			if err != nil {
				return "", err
			}
			networks[i], first = n, cmp.Or(first, missing)
		}
		return first, nil
	}
	missing, err := look(ctx) // an API server that is unreachable now is an error
	switch {
	case err == nil && missing != "" && w.DryRun:
		err = errors.New(missing)
	case err == nil && missing != "":
		err = w.Until(ctx, look)
	}
	return networks, err
}

// joinableNetwork returns the ClusterNetwork, or what is missing while the controller has
// not processed it. A cluster that cannot be joined is an error.
func (c Cluster) joinableNetwork(ctx context.Context) (n *v1alpha1.ClusterNetwork, missing string, err error) {
	n, missing, err = c.network(ctx)
	switch {
	case err != nil || missing != "":
		return nil, missing, err
	case n.Status.ObservedGeneration < n.Generation:
		return nil, fmt.Sprintf("%s: the controller has not processed the last change of ClusterNetwork %s yet; "+
			"if this persists, check that strait controller runs, and its log", c.Name, n.Name), nil
	}
	return n, "", c.usable(n)
}

// usable returns the reason why the cluster cannot be joined yet, nil if it can.
func (c Cluster) usable(n *v1alpha1.ClusterNetwork) error {
	for _, t := range []string{v1alpha1.ConditionDetected, v1alpha1.ConditionReady} {
		if condition := meta.FindStatusCondition(n.Status.Conditions, t); condition != nil && condition.Status == metav1.ConditionFalse {
			return fmt.Errorf("%s: ClusterNetwork %s is not ready: %s", c.Name, n.Name, condition.Message)
		}
	}
	return nil
}

// peering returns the Peering with that name, nil if there is none.
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

// again reads a Peering again. One that was deleted, or created again, is an error, which names
// what to run the command again for. An empty UID is that of any Peering.
func (c Cluster) again(ctx context.Context, name string, uid types.UID, to string) (*v1alpha1.Peering, error) {
	p, err := c.peering(ctx, name)
	if err == nil && (p == nil || uid != "" && p.UID != uid) {
		err = fmt.Errorf("%s: Peering %s was deleted in the meantime; run the command again to %s", c.Name, name, to)
	}
	return p, err
}

// Reports returns what all gateways of the cluster report.
func (c Cluster) Reports(ctx context.Context) ([]v1alpha1.GatewayReport, error) {
	list, err := List(ctx, c, "GatewayReports", c.Client.GatewayReports(install.GatewayNamespace), metav1.ListOptions{})
	return list.Items, err
}

// Peerings returns all Peerings of the cluster, by name.
func (c Cluster) Peerings(ctx context.Context) ([]v1alpha1.Peering, error) {
	list, err := List(ctx, c, "Peerings", c.Client.Peerings(), metav1.ListOptions{})
	return list.Items, err
}

// NetworkAndPeerings returns what Network and Peerings return.
func (c Cluster) NetworkAndPeerings(ctx context.Context) (*v1alpha1.ClusterNetwork, []v1alpha1.Peering, error) {
	n, err := c.Network(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := c.Peerings(ctx)
	return n, all, err
}

// NodeAttachments returns those of all nodes of the cluster.
func (c Cluster) NodeAttachments(ctx context.Context) ([]v1alpha1.NodeAttachment, error) {
	list, err := List(ctx, c, "NodeAttachments", c.Client.NodeAttachments(), metav1.ListOptions{})
	return list.Items, err
}

// List lists objects of a cluster. Its error names what they are.
func List[T client.Object, L client.List](ctx context.Context, c Cluster, what string, kind *client.Kind[T, L], options metav1.ListOptions) (L, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	list, err := kind.List(ctx, options)
	return list, c.Failed("read "+what, err)
}

// Delete deletes an object of a cluster, if it exists. Its error names what it is.
func Delete[T client.Object, L client.List](ctx context.Context, c Cluster, what string, kind *client.Kind[T, L], name string, options metav1.DeleteOptions) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	return c.Failed("delete "+what+" "+name, UnlessMissing(kind.Delete(ctx, name, options)))
}

// UnlessMissing returns an error, or nil if it says that an object does not exist.
func UnlessMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
