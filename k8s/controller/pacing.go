package controller

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// Every node and every gateway watches the status of Peerings, and a remote cluster can announce
// something else all the time. What it announces changes a status pacedBurst times at once, and
// then once per pacedInterval; what it causes otherwise, likewise. That gateways have a link
// again is written linkBurst times at once, and then once per pacedInterval; that they have
// none, always at once. Keys and addresses of this cluster's gateways are not delayed.
const (
	pacedInterval = 10 * time.Second
	pacedBurst    = 3
	linkBurst     = 30
)

// pacing delays what remote clusters change in the status of Peerings. It is used by one pass
// at a time.
type pacing struct {
	wake      func()
	byPeering map[types.UID]*paced
}

type paced struct {
	announcements, statuses, receivers, links, events ratelimit.Bucket

	permitted *v1alpha1.Announcement // the last one that was not delayed
	up        map[string]bool        // gateways with a link, by name; nil before the first pass
	waking    time.Time              // when a pass begins because of this Peering
}

func newPacing(wake func()) *pacing {
	return &pacing{wake: wake, byPeering: make(map[types.UID]*paced)}
}

// hold keeps the announcement in effect of Peerings whose next one is delayed. merged are the
// Peerings with the next ones.
func (c *pacing) hold(peerings, merged []*v1alpha1.Peering, own v1alpha1.ClusterID, now time.Time) {
	present, holders := make(map[types.UID]bool, len(peerings)), peering.HoldersOf(own, peerings)
	for i, p := range peerings {
		present[p.UID] = true
		of := c.of(p)
		is, next := p.Status.Announcement, merged[i].Status.Announcement
		switch {
		case is == nil || next == nil || reflect.DeepEqual(is, next) || peering.Refusal(p, holders, is) != nil: // the first one, or the spec has changed
		case reflect.DeepEqual(next, of.permitted):
		case !c.take(of, &of.announcements, pacedBurst, now):
			merged[i].Status.Announcement = is.DeepCopy()
			continue
		}
		of.permitted = next
	}
	maps.DeleteFunc(c.byPeering, func(uid types.UID, _ *paced) bool { return !present[uid] })
}

// links makes gateways unstable whose links came up often: until the next token, passes treat
// these links as down.
func (c *pacing) links(peerings []*v1alpha1.Peering, pods gatewayPods, now time.Time) {
	for _, p := range peerings {
		of, up := c.of(p), make(map[string]bool)
		for _, name := range pods.names(p) {
			if pod := pods[name]; pod.linkUp() {
				restarted := of.up == nil && slices.Contains(gatewaysUp(p), name)
				pod.unstable = !of.up[name] && !restarted && !c.take(of, &of.links, linkBurst, now)
				up[name], pods[name] = !pod.unstable, pod
			}
		}
		of.up = up
	}
}

func (c *pacing) status(p *v1alpha1.Peering, was, is *v1alpha1.PeeringStatus, now time.Time) bool {
	of := c.of(p)
	return !reflect.DeepEqual(atOnce(was), atOnce(is)) || c.take(of, &of.statuses, pacedBurst, now)
}

// receiver keeps the gateway that receives the exports of the remote cluster if that has changed
// often: each one lists all ReceivedServices, and receives all exports, when it begins.
func (c *pacing) receiver(p *v1alpha1.Peering, was, is *v1alpha1.PeeringStatus, now time.Time) {
	if was.Services == nil || is.Services == nil || was.Services.Receiver == is.Services.Receiver {
		return
	}
	if of := c.of(p); !c.take(of, &of.receivers, pacedBurst, now) {
		is.Services.Receiver = was.Services.Receiver
	}
}

func (c *pacing) of(p *v1alpha1.Peering) *paced {
	of := c.byPeering[p.UID]
	if of == nil {
		of = new(paced)
		c.byPeering[p.UID] = of
	}
	return of
}

// take takes a token, or makes a pass begin when there is one.
func (c *pacing) take(of *paced, bucket *ratelimit.Bucket, burst int, now time.Time) bool {
	if bucket.Take(now, pacedInterval, burst) {
		return true
	}
	if at := now.Add(bucket.Wait(now, pacedInterval, burst)); !of.waking.After(now) || at.Before(of.waking) {
		of.waking = at
		time.AfterFunc(at.Sub(now), c.wake)
	}
	return false
}

// atOnce returns the fields of a status whose changes are written at once.
func atOnce(s *v1alpha1.PeeringStatus) v1alpha1.PeeringStatus {
	urgent := *s
	urgent.Announced, urgent.Conditions = nil, nil
	if s.Announced == nil {
		urgent.Announced = new(v1alpha1.Announcement) // the first one is
	}
	if s.Services != nil {
		urgent.Services = &v1alpha1.PeeringServicesStatus{Receiver: s.Services.Receiver}
	}
	for _, kind := range []string{v1alpha1.ConditionCIDRConflict, v1alpha1.ConditionTunnelUp, v1alpha1.ConditionRouted, v1alpha1.ConditionGatewaysUp, v1alpha1.ConditionGatewaysUpdated} {
		if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
			urgent.Conditions = append(urgent.Conditions, *c)
			of := &urgent.Conditions[len(urgent.Conditions)-1]
			of.Message, of.LastTransitionTime.Time = "", time.Time{}
		}
	}
	return urgent
}
