package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Schema names the form of a Report. A field may come; none changes or goes without
// another number.
const Schema = "strait.dev/status/1"

// Report is what there is to say of a cluster's peerings.
type Report struct {
	Schema    string             `json:"schema"`
	ClusterID v1alpha1.ClusterID `json:"clusterID"`
	Ready     bool               `json:"ready"` // all peerings are; false if there is none
	PodCIDRs  []v1alpha1.CIDR    `json:"podCIDRs"`
	Peerings  []PeeringReport    `json:"peerings"` // by name
}

// PeeringReport is what there is to say of one peering.
type PeeringReport struct {
	Name      string             `json:"name"`
	ClusterID v1alpha1.ClusterID `json:"clusterID,omitempty"` // of the remote cluster; left out while it is not known
	Ready     bool               `json:"ready"`
	Missing   string             `json:"missing,omitempty"` // what it takes to be ready, and the remedy
	MTU       int32              `json:"mtu,omitempty"`     // largest IP packet that crosses, bytes
	Stages    []Stage            `json:"stages"`            // in the order in which they have to be reached
	Links     []Link             `json:"links"`
	Ranges    []Range            `json:"ranges"` // of the remote cluster
}

// State is how far a stage is.
type State string

// The states of a stage.
const (
	Reached State = "reached"
	Failed  State = "failed"  // it will not be reached by itself
	Pending State = "pending" // not yet, or not known
)

// Stage is one of the steps from an object to packets.
type Stage struct {
	Name    string `json:"name"`
	State   State  `json:"state"`
	Reason  string `json:"reason"`            // one word, for programs
	Message string `json:"message,omitempty"` // for people, with the remedy where something is missing
}

// Link is the tunnel between one gateway here and one there.
type Link struct {
	Local         string            `json:"local"`
	Remote        string            `json:"remote"`
	Up            bool              `json:"up"`
	RTT           *metav1.Duration  `json:"rtt,omitempty"`
	LastHandshake *metav1.Time      `json:"lastHandshake,omitempty"`
	PathMTU       int32             `json:"pathMTU,omitempty"` // bytes; left out while no packet of full size crosses
	Endpoint      v1alpha1.Endpoint `json:"endpoint,omitempty"`
}

// Range is one range of the remote cluster and where it is seen here.
type Range struct {
	CIDR   v1alpha1.CIDR `json:"cidr"`
	SeenAs v1alpha1.CIDR `json:"seenAs"`
	Of     string        `json:"of"` // pods, or external: nodes, gateways and mapped hosts
}

// reload is what a cluster's objects say of its peerings: of those with these names, or of
// all. That one is not there is an error.
func buildReport(n *v1alpha1.ClusterNetwork, all []v1alpha1.Peering, names []string, now time.Time) (*Report, error) {
	r := &Report{Schema: Schema, ClusterID: n.Status.ClusterID, PodCIDRs: n.Status.PodCIDRs, Peerings: []PeeringReport{}}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(p v1alpha1.Peering) bool { return p.Name == name }) {
			return nil, fmt.Errorf("there is no Peering %s; there are: %s", name, peeringNames(all))
		}
	}
	for i := range all {
		if len(names) == 0 || slices.Contains(names, all[i].Name) {
			r.Peerings = append(r.Peerings, peeringReportAt(n, &all[i], now))
		}
	}
	r.Ready = len(r.Peerings) > 0 && !slices.ContainsFunc(r.Peerings, func(s PeeringReport) bool { return !s.Ready })
	return r, nil
}

func peeringNames(all []v1alpha1.Peering) string {
	var names []string
	for i := range all {
		names = append(names, all[i].Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// ReadReport is the Report of a cluster, of the peerings with these names or of all.
func ReadReport(ctx context.Context, c Cluster, names []string) (*Report, error) {
	n, err := c.Network(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.Peerings(ctx)
	if err != nil {
		return nil, err
	}
	r, err := buildReport(n, all, names, time.Now())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return r, nil
}

// Await is Look once all are ready, or when time is up: then with a TimeoutError.
func Await(ctx context.Context, c Cluster, names []string, w Waiting) (r *Report, err error) {
	err = w.until(ctx, func(ctx context.Context) (string, error) {
		is, err := ReadReport(ctx, c, names)
		if err != nil {
			return "", err
		}
		r = is
		for _, s := range r.Peerings {
			if !s.Ready {
				return fmt.Sprintf("Peering %s: %s", s.Name, s.Missing), nil
			}
		}
		if len(r.Peerings) == 0 {
			return noPeeringsText, nil
		}
		return "", nil
	})
	return r, err
}

// noPeeringsText is what to do without any Peering.
const noPeeringsText = "this cluster is joined to no other yet; join it with strait peer, or strait invite here and strait accept there"

func peeringReport(n *v1alpha1.ClusterNetwork, p *v1alpha1.Peering) PeeringReport {
	return peeringReportAt(n, p, time.Now())
}

func peeringReportAt(n *v1alpha1.ClusterNetwork, p *v1alpha1.Peering, now time.Time) PeeringReport {
	s := PeeringReport{Name: p.Name, ClusterID: remoteID(p), Missing: notReadyReason(p), MTU: p.Status.MTU, Stages: stages(n, p, now), Links: []Link{}, Ranges: []Range{}}
	s.Ready = s.Missing == ""
	for _, l := range p.Status.Links {
		s.Links = append(s.Links, Link{Local: l.Local, Remote: l.Remote, Up: l.Up, RTT: l.RTT, LastHandshake: l.LastHandshake, PathMTU: l.PathMTU, Endpoint: l.Endpoint})
	}
	slices.SortStableFunc(s.Links, func(a, b Link) int { return strings.Compare(a.Local+" "+a.Remote, b.Local+" "+b.Remote) })
	for _, seen := range p.Status.Prefixes {
		s.Ranges = append(s.Ranges, Range{seen.CIDR, seen.SeenAs, ofPods})
	}
	for _, seen := range p.Status.ExternalPrefixes {
		s.Ranges = append(s.Ranges, Range{seen.CIDR, seen.SeenAs, ofOthers})
	}
	return s
}

// What ranges of a remote cluster are of.
const (
	ofPods   = "pods"
	ofOthers = "external"
)
