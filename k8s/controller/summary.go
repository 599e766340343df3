package controller

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// measurements is the field manager of the measured parts of summaries. These change
// continuously and are therefore written separately from passes.
const measurements = Manager + "-measurements"

const (
	summaryInterval = time.Second      // how often summaries are checked
	summaryTimeout  = 10 * time.Second // delay of writes that only change numbers; also the timeout of requests
)

// summarize keeps the measured parts of summaries up to date until ctx ends.
func (c *controller) summarize(ctx context.Context) {
	written := make(map[types.UID]time.Time) // by peerings
	for ctx.Err() == nil {
		was, ready := written, c.podsReady()
		written = make(map[types.UID]time.Time)
		for _, peering := range c.peerings.List() {
			now, last := time.Now(), was[peering.UID]
			written[peering.UID] = last
			wanted := summaryOf(peering, ready, now)
			same, urgent := compareSummaries(peering.Status.Summary, wanted)
			if same || now.Sub(last) < summaryTimeout && !urgent || now.Sub(last) < summaryInterval {
				continue
			}
			written[peering.UID] = now
			if err := c.writeSummary(ctx, peering.Name, wanted); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
				c.log.Debug("cannot write the summary of a Peering; trying again", "peering", peering.Name, "error", err)
			}
		}
		sleep(ctx, summaryInterval)
	}
}

func (c *controller) writeSummary(ctx context.Context, peering string, summary v1alpha1.PeeringSummary) error {
	ctx, cancel := context.WithTimeout(ctx, summaryTimeout)
	defer cancel()
	_, err := c.client.Peerings().ApplyStatus(ctx, &v1alpha1.Peering{
		ObjectMeta: metav1.ObjectMeta{Name: peering}, Status: v1alpha1.PeeringStatus{Summary: summary},
	}, measurements)
	return err
}

// summaryOf returns the measured part of a peering's summary: of the link that is up and
// has the shortest round-trip time.
func summaryOf(p *v1alpha1.Peering, ready map[string]bool, now time.Time) (s v1alpha1.PeeringSummary) {
	var best *v1alpha1.LinkStatus
	for i := range p.Status.Links {
		l := &p.Status.Links[i]
		if l.LastHandshake != nil && (s.LastHandshake == nil || s.LastHandshake.Before(l.LastHandshake)) {
			s.LastHandshake = l.LastHandshake
		}
		faster := best == nil || l.RTT != nil && (best.RTT == nil || l.RTT.Duration < best.RTT.Duration)
		if l.Up && ready[l.Local] && faster {
			best = l
		}
	}
	if best != nil {
		s.RTT, s.Endpoint = best.RTT, best.Endpoint
	} else if endpoints := peering.RemoteOf(p, now).Calls(); len(endpoints) > 0 {
		s.Endpoint = endpoints[0]
	}
	return s
}

// compareSummaries compares the measured parts. urgent means that more than a number
// changed: a link came up or went down.
func compareSummaries(have, want v1alpha1.PeeringSummary) (same, urgent bool) {
	urgent = have.Endpoint != want.Endpoint || (have.RTT == nil) != (want.RTT == nil) || (have.LastHandshake == nil) != (want.LastHandshake == nil)
	if urgent || have.RTT != nil && have.RTT.Duration != want.RTT.Duration {
		return false, urgent
	}
	return have.LastHandshake.Equal(want.LastHandshake), false
}

// podsReady returns the gateways whose pod is ready, whatever its readiness gate says.
func (c *controller) podsReady() map[string]bool {
	ready := make(map[string]bool)
	for _, pod := range c.pods.List() {
		ready[pod.Name] = podRuns(pod)
	}
	return ready
}
