package operator

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// ExportOptions say which Services to export.
type ExportOptions struct {
	Services []types.NamespacedName // at least one
	// Wait waits until the Services are exported, and with access to the remote cluster
	// until it imports them.
	Wait    bool
	Waiting Waiting
}

// Export is a Service that a cluster exports.
type Export struct {
	Cluster   string     `json:"cluster"` // as in Cluster.Name
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	DNSName   string     `json:"dnsName"`
	Existed   bool       `json:"existed"` // the ServiceExport did before
	Ready     bool       `json:"ready"`
	Message   string     `json:"message,omitempty"` // why it is not ready
	OfferedTo []OfferTo  `json:"offeredTo"`         // by name of the Peering
	Imports   []ImportIn `json:"imports"`           // in the clusters to which there is access
}

// OfferTo is a remote cluster that receives the exports of a cluster.
type OfferTo struct {
	Peering   string             `json:"peering"`
	ClusterID v1alpha1.ClusterID `json:"clusterID,omitempty"`
	LinkUp    bool               `json:"linkUp"`
}

// ImportIn is the state of an exported Service in a cluster.
type ImportIn struct {
	Cluster string   `json:"cluster"` // as in Cluster.Name
	Ready   bool     `json:"ready"`
	IPs     []string `json:"ips,omitempty"`
	Message string   `json:"message,omitempty"` // why it is not ready
}

// ExportServices exports Services of a cluster: it creates their ServiceExports. With access
// to the remote cluster it reports their imports there; remote is nil without access.
// Nothing is written if one of the Services cannot be exported.
func ExportServices(ctx context.Context, c Cluster, remote *Cluster, o ExportOptions) ([]Export, error) {
	for _, cluster := range Clusters(c, remote) {
		if err := cluster.checkServicesInstalled(ctx, o.Services[0].Namespace); err != nil {
			return nil, err
		}
	}
	all := make([]Export, 0, len(o.Services))
	for _, name := range o.Services {
		if err := c.checkExportable(ctx, name); err != nil {
			return nil, err
		}
		all = append(all, Export{Cluster: c.Name, Namespace: name.Namespace, Name: name.Name, DNSName: dnsName(name)})
	}
	for i, name := range o.Services {
		var err error
		if all[i].Existed, err = c.createExport(ctx, name); err != nil {
			return nil, err
		}
	}
	if o.Waiting.DryRun {
		return nil, ErrDryRun
	}
	look := func(ctx context.Context) (missing string, err error) {
		for i, name := range o.Services {
			if err := all[i].read(ctx, c, remote, name); err != nil {
				return "", err
			}
			if missing == "" {
				missing = all[i].missing()
			}
		}
		return missing, nil
	}
	if o.Wait {
		return all, o.Waiting.Until(ctx, look)
	}
	_, err := look(ctx)
	return all, err
}

// checkExportable returns an error with a remedy if a Service cannot be exported.
func (c Cluster) checkExportable(ctx context.Context, name types.NamespacedName) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	s, err := c.Client.Services(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: there is no Service %s; create it, or name another one: kubectl get services --namespace %s", c.Name, name, name.Namespace)
	case err != nil:
		return c.Failed("read Service "+name.String(), err)
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return fmt.Errorf("%s: Service %s has type ExternalName, which cannot be exported; export a Service with endpoints", c.Name, name)
	case slices.ContainsFunc(s.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == mcsv1beta1.ServiceImportKindName }):
		return fmt.Errorf("%s: Service %s belongs to a ServiceImport; export the Service from which it is imported, in its own cluster", c.Name, name)
	}
	return nil
}

// createExport creates the ServiceExport of a Service. It reports whether it existed.
func (c Cluster) createExport(ctx context.Context, name types.NamespacedName) (existed bool, err error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	made, err := c.Client.ServiceExports(name.Namespace).Create(ctx, export, metav1.CreateOptions{FieldManager: Manager})
	if apierrors.IsAlreadyExists(err) {
		return true, nil
	}
	if err != nil {
		return false, c.Failed("create ServiceExport "+name.String(), err)
	}
	c.changedExport(Created, made)
	return false, nil
}

func (e *Export) read(ctx context.Context, c Cluster, remote *Cluster, name types.NamespacedName) error {
	export, err := c.export(ctx, name)
	if err != nil {
		return err
	}
	if export == nil {
		return fmt.Errorf("%s: ServiceExport %s was deleted in the meantime; run the command again to export the Service", c.Name, name)
	}
	e.Message = notExportedReason(export)
	e.Ready = e.Message == ""
	peerings, err := c.Peerings(ctx)
	if err != nil && !apierrors.IsForbidden(err) { // a user of one namespace need not read them
		return err
	}
	e.OfferedTo = []OfferTo{}
	for i := range peerings {
		p := &peerings[i]
		e.OfferedTo = append(e.OfferedTo, OfferTo{Peering: p.Name, ClusterID: remoteID(p), LinkUp: linkUp(p)})
	}
	e.Imports = []ImportIn{}
	for _, cluster := range Clusters(c, remote) {
		i, err := cluster.importOf(ctx, name)
		if err != nil {
			return err
		}
		e.Imports = append(e.Imports, i)
	}
	return nil
}

// missing returns what an export lacks, empty if nothing.
func (e *Export) missing() string {
	if !e.Ready {
		return fmt.Sprintf("%s: ServiceExport %s/%s: %s", e.Cluster, e.Namespace, e.Name, e.Message)
	}
	for _, i := range e.Imports {
		if !i.Ready {
			return fmt.Sprintf("%s: ServiceImport %s/%s: %s", i.Cluster, e.Namespace, e.Name, i.Message)
		}
	}
	return ""
}

// export returns a ServiceExport, nil if there is none.
func (c Cluster) export(ctx context.Context, name types.NamespacedName) (*mcsv1beta1.ServiceExport, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	e, err := c.Client.ServiceExports(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return e, c.Failed("read ServiceExport "+name.String(), err)
}

// importOf returns the state of an exported Service in a cluster.
func (c Cluster) importOf(ctx context.Context, name types.NamespacedName) (ImportIn, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	is := ImportIn{Cluster: c.Name}
	found, err := c.Client.ServiceImports(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		is.Message = fmt.Sprintf("it is not imported yet; strait services %s says why", name)
		return is, nil
	case err != nil:
		return is, c.Failed("read ServiceImport "+name.String(), err)
	}
	is.IPs, is.Message = found.Spec.IPs, notImportedReason(found)
	is.Ready = is.Message == ""
	return is, nil
}

// UnexportServices deletes the ServiceExports of Services. The Services stay. Nothing is
// deleted if one of the ServiceExports does not exist. There is at least one name.
func UnexportServices(ctx context.Context, c Cluster, names []types.NamespacedName) error {
	if err := c.checkServicesInstalled(ctx, names[0].Namespace); err != nil {
		return err
	}
	doomed := make([]*mcsv1beta1.ServiceExport, 0, len(names))
	for _, name := range names {
		e, err := c.export(ctx, name)
		if err != nil {
			return err
		}
		if e == nil {
			return fmt.Errorf("%s: there is no ServiceExport %s; strait services lists the exported Services", c.Name, name)
		}
		doomed = append(doomed, e)
	}
	for _, e := range doomed {
		if err := c.deleteExport(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// deleteExport deletes a ServiceExport, and no other one of its name.
func (c Cluster) deleteExport(ctx context.Context, e *mcsv1beta1.ServiceExport) error {
	err := Delete(ctx, c, "ServiceExport", c.Client.ServiceExports(e.Namespace), e.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &e.UID}})
	if err != nil {
		return err
	}
	c.changedExport(Deleted, e)
	return nil
}
