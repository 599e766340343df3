package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// Schema is the version of the JSON form of a Report. Fields may be added; changes and
// removals get a new number.
const Schema = "strait.dev/status/1"

// Report is the status of a cluster's peerings.
type Report struct {
	Schema    string             `json:"schema"`
	ClusterID v1alpha1.ClusterID `json:"clusterID"`
	Ready     bool               `json:"ready"` // all peerings are; false if there is none
	PodCIDRs  []v1alpha1.CIDR    `json:"podCIDRs"`
	Peerings  []PeeringReport    `json:"peerings"` // by name
}

// PeeringReport is the status of one peering.
type PeeringReport struct {
	Name      string             `json:"name"`
	ClusterID v1alpha1.ClusterID `json:"clusterID,omitempty"` // of the remote cluster; left out while it is not known
	Ready     bool               `json:"ready"`
	Missing   string             `json:"missing,omitempty"` // what is missing to be ready, with the remedy
	MTU       int32              `json:"mtu,omitempty"`     // largest IP packet that is carried, bytes
	Stages    []Stage            `json:"stages"`            // in the order in which they have to be reached
	Links     []Link             `json:"links"`
	Ranges    []Range            `json:"ranges"` // of the remote cluster
	Spread    []GatewaySpread    `json:"spread"` // of the nodes' flows, by gateway
	Offload   *OffloadReport     `json:"offload,omitempty"`
}

// State is the state of a stage.
type State string

// The states of a stage.
const (
	Reached State = "reached"
	Failed  State = "failed"  // needs intervention
	Pending State = "pending" // not reached yet, or not known
)

// Stage is one of the steps from an object to packets.
type Stage struct {
	Name    string `json:"name"`
	State   State  `json:"state"`
	Reason  string `json:"reason"`            // one word, machine-readable
	Message string `json:"message,omitempty"` // human-readable, with the remedy if something is missing
}

// Link is the tunnel between a local and a remote gateway.
type Link struct {
	Local         string            `json:"local"`
	Remote        string            `json:"remote"`
	Up            bool              `json:"up"`
	RTT           *metav1.Duration  `json:"rtt,omitempty"`
	LastHandshake *metav1.Time      `json:"lastHandshake,omitempty"`
	PathMTU       int32             `json:"pathMTU,omitempty"` // bytes; omitted while no packet of full size passes
	Endpoint      v1alpha1.Endpoint `json:"endpoint,omitempty"`
	Traffic       *Traffic          `json:"traffic,omitempty"` // set by ReadTraffic
}

// Range is one CIDR of the remote cluster and the CIDR that it is mapped to.
type Range struct {
	CIDR   v1alpha1.CIDR `json:"cidr"`
	SeenAs v1alpha1.CIDR `json:"seenAs"`
	Of     string        `json:"of"` // pods, or external: nodes, gateways and mapped hosts
}

// buildReport builds the report of a cluster's peerings: of those with these names, or of
// all. A missing Peering is an error.
func buildReport(n *v1alpha1.ClusterNetwork, all []v1alpha1.Peering, reports []v1alpha1.GatewayReport, names []string, now time.Time) (*Report, error) {
	r := &Report{Schema: Schema, ClusterID: n.Status.ClusterID, PodCIDRs: append([]v1alpha1.CIDR{}, n.Status.PodCIDRs...), Peerings: []PeeringReport{}}
	for _, name := range names {
		if named(all, name) == nil {
			return nil, noPeering(name, all)
		}
	}
	for i := range all {
		if len(names) == 0 || slices.Contains(names, all[i].Name) {
			r.Peerings = append(r.Peerings, peeringReport(n, &all[i], reports, now))
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

// ReadReport reads the status of a cluster's peerings: of those with these names, or of
// all.
func ReadReport(ctx context.Context, c Cluster, names []string) (*Report, error) {
	r, err := readReport(ctx, c, names)
	if err != nil {
		return nil, err
	}
	if err := r.complete(ctx, c); err != nil {
		return nil, err
	}
	return r, nil
}

// complete adds to a report what the nodes report, and the pods that run in another cluster.
func (r *Report) complete(ctx context.Context, c Cluster) error {
	if err := r.readSpread(ctx, c); err != nil {
		return err
	}
	return r.readOffload(ctx, c)
}

// readReport is ReadReport without what complete adds, which is much in a large cluster.
func readReport(ctx context.Context, c Cluster, names []string) (*Report, error) {
	n, all, err := c.NetworkAndPeerings(ctx)
	if err != nil {
		return nil, err
	}
	reports, err := c.Reports(ctx)
	if err != nil {
		return nil, err
	}
	r, err := buildReport(n, all, reports, names, time.Now())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return r, nil
}

// Await waits until all peerings are ready and returns their report. After the timeout it
// returns the last report and a TimeoutError.
func Await(ctx context.Context, c Cluster, names []string, w Waiting) (r *Report, err error) {
	err = w.Until(ctx, func(ctx context.Context) (string, error) {
		is, err := readReport(ctx, c, names)
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
	var late *TimeoutError
	if r != nil && (err == nil || errors.As(err, &late)) {
		err = errors.Join(err, r.complete(ctx, c))
	}
	return r, err
}

// noPeeringsText is the hint if there is no Peering.
const noPeeringsText = "this cluster is not joined to another cluster yet; use strait peer, or strait invite here and strait accept in the other cluster"

// readPeeringReport reads the status of one peering.
func (c Cluster) readPeeringReport(ctx context.Context, n *v1alpha1.ClusterNetwork, p *v1alpha1.Peering) (s PeeringReport, err error) {
	reports, err := c.Reports(ctx)
	if err != nil {
		return s, err
	}
	return peeringReport(n, p, reports, time.Now()), nil
}

func peeringReport(n *v1alpha1.ClusterNetwork, p *v1alpha1.Peering, reports []v1alpha1.GatewayReport, now time.Time) PeeringReport {
	links := linksOf(p, reports)
	s := PeeringReport{Name: p.Name, ClusterID: remoteID(p), Missing: notReadyReason(p), MTU: p.Status.MTU, Stages: stages(n, p, links, now), Links: links, Ranges: []Range{}, Spread: []GatewaySpread{}}
	s.Ready = s.Missing == ""
	for _, g := range p.Status.Gateways {
		s.Spread = append(s.Spread, GatewaySpread{Gateway: g.Name})
	}
	for _, seen := range p.Status.Prefixes {
		s.Ranges = append(s.Ranges, Range{seen.CIDR, seen.SeenAs, ofPods})
	}
	for _, seen := range p.Status.ExternalPrefixes {
		s.Ranges = append(s.Ranges, Range{seen.CIDR, seen.SeenAs, ofOthers})
	}
	return s
}

// linksOf returns the links of a Peering's gateways, by their names.
func linksOf(p *v1alpha1.Peering, reports []v1alpha1.GatewayReport) []Link {
	links := []Link{} // not null in JSON
	for _, r := range peering.Reports(p, reports) {
		for _, l := range r.Status.Links {
			links = append(links, Link{Local: r.Name, Remote: l.Remote, Up: l.Up, RTT: l.RTT, LastHandshake: l.LastHandshake, PathMTU: l.PathMTU, Endpoint: l.Endpoint})
		}
	}
	slices.SortStableFunc(links, func(a, b Link) int { return strings.Compare(a.Local+" "+a.Remote, b.Local+" "+b.Remote) })
	return links
}

// The address types of remote CIDRs.
const (
	ofPods   = "pods"
	ofOthers = "external"
)
