package operator

import (
	"errors"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Change is an object that a command wrote, or in a dry run would have written, as the API
// server returned it; before it was deleted. One of the objects is set.
type Change struct {
	Cluster       string                    `json:"cluster"` // as in Cluster.Name
	Action        Action                    `json:"action"`
	Peering       *v1alpha1.Peering         `json:"peering,omitempty"`
	ServiceExport *mcsv1beta1.ServiceExport `json:"serviceExport,omitempty"`
}

// Action is what happened to an object.
type Action string

// The actions of a Change.
const (
	Created Action = "created"
	Updated Action = "updated"
	Deleted Action = "deleted"
)

// ErrDryRun ends a command in a dry run where it would begin to wait: nothing was stored
// that it could wait for.
var ErrDryRun = errors.New("dry run: nothing was stored")

// Name returns the name of the object, with its namespace if it has one: NAMESPACE/NAME.
func (c Change) Name() string {
	if c.ServiceExport != nil {
		return nameOf(c.ServiceExport).String()
	}
	return c.Peering.Name
}

// Object names the object and its type, for people.
func (c Change) Object() string {
	if c.ServiceExport != nil {
		return "ServiceExport " + c.Name()
	}
	return "Peering " + c.Name()
}

func (c Cluster) changed(p *v1alpha1.Peering, existed bool) {
	action := Created
	if existed {
		action = Updated
	}
	c.changedPeering(action, p)
}

func (c Cluster) deleted(p *v1alpha1.Peering) { c.changedPeering(Deleted, p) }

func (c Cluster) changedPeering(action Action, p *v1alpha1.Peering) {
	if c.Changed == nil {
		return
	}
	p = p.DeepCopy()
	p.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Peering"))
	p.ManagedFields = nil
	c.Changed(Change{Cluster: c.Name, Action: action, Peering: p})
}

func (c Cluster) changedExport(action Action, e *mcsv1beta1.ServiceExport) {
	if c.Changed == nil {
		return
	}
	e = e.DeepCopy()
	e.APIVersion, e.Kind = mcsv1beta1.GroupVersion.String(), mcsv1beta1.ServiceExportKindName
	e.ManagedFields = nil
	c.Changed(Change{Cluster: c.Name, Action: action, ServiceExport: e})
}
