package operator

import (
	"errors"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Change is a Peering that a command wrote, or in a dry run would have written.
type Change struct {
	Cluster string            `json:"cluster"` // as in Cluster.Name
	Action  Action            `json:"action"`
	Peering *v1alpha1.Peering `json:"peering"` // as the API server returned it; before it was deleted
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

func (c Cluster) changed(p *v1alpha1.Peering, existed bool) {
	action := Created
	if existed {
		action = Updated
	}
	c.report(action, p)
}

func (c Cluster) deleted(p *v1alpha1.Peering) { c.report(Deleted, p) }

func (c Cluster) report(action Action, p *v1alpha1.Peering) {
	if c.Changed == nil {
		return
	}
	p = p.DeepCopy()
	p.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Peering"))
	p.ManagedFields = nil
	c.Changed(Change{Cluster: c.Name, Action: action, Peering: p})
}
