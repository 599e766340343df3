package peering

import (
	"cmp"
	"fmt"
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Holders are the clusters that cluster IDs belong to: an ID belongs to one cluster, and so
// to one Peering at most. The zero Holders know none. Not safe for concurrent use.
type Holders struct {
	own      v1alpha1.ClusterID            // this cluster's; empty: not known
	peerings map[v1alpha1.ClusterID]string // names
}

// ClusterIDTakenError is the refusal of a cluster ID that belongs to another Peering.
type ClusterIDTakenError struct {
	ID     v1alpha1.ClusterID
	Holder string // the name of that Peering
}

func (e *ClusterIDTakenError) Error() string {
	return fmt.Sprintf("cluster ID %s belongs to Peering %s", e.ID, e.Holder)
}

// ReasonClusterIDTaken is the reason of the condition Announced of a Peering whose remote
// cluster has the ID of another Peering's.
const ReasonClusterIDTaken = "ClusterIDTaken"

// HoldersOf returns the holders of cluster IDs among all Peerings of a cluster with the ID
// own, in whatever order they are: the Peering that has the ID in its status, which stays
// its holder; otherwise the one whose spec has it; of several, the oldest.
func HoldersOf(own v1alpha1.ClusterID, all []*v1alpha1.Peering) Holders {
	h := Holders{own: own, peerings: make(map[v1alpha1.ClusterID]string)}
	for _, p := range slices.SortedFunc(slices.Values(all), precedence) {
		h.Hold(p, cmp.Or(p.Spec.ClusterID, p.Status.ClusterID))
	}
	return h
}

// precedence orders Peerings that claim the same ID: the one that keeps it first.
func precedence(a, b *v1alpha1.Peering) int {
	without := func(p *v1alpha1.Peering) int { // 0: has the ID already; 1: does not
		if p.Status.ClusterID == "" || p.Spec.ClusterID != "" && p.Spec.ClusterID != p.Status.ClusterID {
			return 1
		}
		return 0
	}
	unset := func(p *v1alpha1.Peering) int { // 1: only the remote cluster claims the ID
		if p.Spec.ClusterID == "" {
			return 1
		}
		return 0
	}
	return cmp.Or(without(a)-without(b), unset(a)-unset(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// Hold gives an ID to a Peering unless it is refused, and returns it; empty: the Peering has
// none.
func (h Holders) Hold(p *v1alpha1.Peering, id v1alpha1.ClusterID) v1alpha1.ClusterID {
	if id == "" || h.Refuse(p, id) != nil {
		return ""
	}
	h.peerings[id] = p.Name
	return id
}

// Refuse returns why the remote cluster of a Peering cannot have an ID, nil if it can: it is
// this cluster's own, or that of another Peering (*ClusterIDTakenError).
func (h Holders) Refuse(p *v1alpha1.Peering, id v1alpha1.ClusterID) error {
	if h.own != "" && id == h.own {
		return fmt.Errorf("cluster ID %s is this cluster's own; set a unique spec.clusterID in the ClusterNetwork of each cluster", id)
	}
	if holder, ok := h.peerings[id]; ok && holder != p.Name {
		return &ClusterIDTakenError{ID: id, Holder: holder}
	}
	return nil
}
