package controller

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gaissmai/bart"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
)

const (
	podInterval = time.Second            // minimum interval between two writes for one node
	podPause    = 100 * time.Millisecond // minimum interval between two evaluations of all pods
	podShare    = 4                      // evaluations use at most one part in podShare+1 of one CPU
	podWriters  = 8                      // maximum number of requests at a time
	podTimeout  = 10 * time.Second       // request timeout
)

// publishPods writes spec.podAddresses of NodeAttachments as pods change, until ctx ends:
// apart from passes, which read and write much more.
func (c *controller) publishPods(ctx context.Context) {
	p := podPublisher{controller: c, written: make(map[string]time.Time)}
	defer p.podProblems.Store(0) // those of the next leader count
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.podsChanged:
		case <-again:
		}
		again = nil
		if p.publish(ctx, time.Now()) {
			again = time.After(podInterval)
		}
		sleep(ctx, max(podPause, podShare*p.evaluation))
	}
}

// notifyPods requests an evaluation of all pods.
func (c *controller) notifyPods() {
	select {
	case c.podsChanged <- struct{}{}:
	default: // a request is pending
	}
}

// podReservations returns the prefixes that no pod may have an address in.
func podReservations(n *network, inForce []claims.Spec) []ipam.Reserved {
	all := n.addressPools()
	for _, spec := range inForce {
		if spec.Pool == v1alpha1.PoolRemap {
			if p := claims.Grant(spec).Prefix; p.IsValid() {
				all = append(all, ipam.Reserved{Prefix: p, Use: "the mapped CIDR of " + spec.Owner.Kind + " " + spec.Owner.Name})
			}
		}
	}
	return all
}

// podPublisher is the state of one call of publishPods.
type podPublisher struct {
	*controller
	written    map[string]time.Time // by node
	problems   []string             // as logged last
	evaluation time.Duration        // that the last evaluation took, without its requests
}

// publish writes what differs, and reports whether something is left to write. An address
// that moves is removed from its old node before its new node gets it.
func (p *podPublisher) publish(ctx context.Context, now time.Time) (left bool) {
	reserved := p.podReserved.Load()
	if reserved == nil {
		return false // the first pass requests an evaluation
	}
	wanted, problems := podAddresses(p.clusterPods.list(), p.nodes.List(), *reserved)
	p.report(problems)
	maps.DeleteFunc(p.written, func(_ string, at time.Time) bool { return now.Sub(at) >= podInterval })
	var losing, gaining []*v1alpha1.NodeAttachment
	var leaving bart.Lite // addresses that are still to be removed from a node
	for _, a := range p.attachments.List() {
		switch lost := without(a.Spec.PodAddresses, wanted[a.Name]); {
		case len(lost) > 0:
			losing = append(losing, a)
			insertAll(&leaving, lost)
		case !slices.Equal(a.Spec.PodAddresses, wanted[a.Name]):
			gaining = append(gaining, a)
		}
	}
	p.evaluation = time.Since(now)
	for _, some := range [][]*v1alpha1.NodeAttachment{losing, gaining} {
		left = p.writeAll(ctx, some, wanted, &leaving) || left
	}
	return left
}

// podWrite is a write of the addresses of one node.
type podWrite struct {
	to   *v1alpha1.NodeAttachment
	lost []netip.Prefix // what the node has no longer afterwards
	done bool
}

// writeAll writes those addresses of nodes that they may have now, several nodes at a time. It removes what nodes have
// lost from leaving, and reports whether something is left to write.
func (p *podPublisher) writeAll(ctx context.Context, nodes []*v1alpha1.NodeAttachment, wanted map[string][]v1alpha1.CIDR, leaving *bart.Lite) (left bool) {
	var writes []*podWrite
	for _, a := range nodes {
		lost := parsed(without(a.Spec.PodAddresses, wanted[a.Name]))
		removeAll(leaving, lost)
		to := possible(a.Spec.PodAddresses, wanted[a.Name], leaving)
		_, recently := p.written[a.Name]
		left = left || recently || !slices.Equal(to, wanted[a.Name])
		if slices.Equal(to, a.Spec.PodAddresses) {
			continue
		}
		for _, own := range lost {
			leaving.Insert(own)
		}
		if !recently {
			p.written[a.Name] = time.Now()
			w := &podWrite{to: &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: a.Name, UID: a.UID, ResourceVersion: a.ResourceVersion}, Spec: a.Spec}, lost: lost}
			w.to.Spec.PodAddresses = to
			writes = append(writes, w)
		}
	}
	var running sync.WaitGroup
	free := make(chan struct{}, podWriters)
	for _, w := range writes {
		free <- struct{}{}
		running.Go(func() { w.done = p.write(ctx, w.to); <-free })
	}
	running.Wait()
	for _, w := range writes {
		if left = left || !w.done; w.done {
			removeAll(leaving, w.lost)
		}
	}
	return left
}

// possible returns the addresses that a node may have now: what it shall have, but of what
// overlaps leaving addresses of other nodes only what it has already.
func possible(has, wanted []v1alpha1.CIDR, leaving *bart.Lite) (now []v1alpha1.CIDR) {
	var waiting []netip.Prefix
	for _, p := range parsed(wanted) {
		if leaving.OverlapsPrefix(p) {
			waiting = append(waiting, p)
		}
	}
	if len(waiting) == 0 {
		return wanted
	}
	var all []netip.Prefix
	for _, p := range parsed(wanted) {
		if !slices.Contains(waiting, p) {
			all = append(all, p)
		}
	}
	for _, p := range parsed(has) {
		within := func(w netip.Prefix) bool { return w.Bits() <= p.Bits() && w.Contains(p.Addr()) }
		if slices.ContainsFunc(waiting, within) {
			all = append(all, p)
		}
	}
	return cidrs(merged(all))
}

// without returns the prefixes of a list that another one does not contain.
func without(all, other []v1alpha1.CIDR) (rest []v1alpha1.CIDR) {
	for _, p := range all {
		if !slices.Contains(other, p) {
			rest = append(rest, p)
		}
	}
	return rest
}

func parsed(texts []v1alpha1.CIDR) []netip.Prefix {
	all, _ := parsePrefixes(texts) // written by this controller, and validated by the API server
	return all
}

func insertAll(into *bart.Lite, texts []v1alpha1.CIDR) {
	for _, p := range parsed(texts) {
		into.Insert(p)
	}
}

func removeAll(from *bart.Lite, prefixes []netip.Prefix) {
	for _, p := range prefixes {
		from.Delete(p)
	}
}

// write writes the addresses of one node. It returns false if that has to be repeated: the cache is behind, or the
// request failed. Safe for concurrent use.
func (p *podPublisher) write(ctx context.Context, to *v1alpha1.NodeAttachment) bool {
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	_, err := p.client.NodeAttachments().Apply(ctx, to, Manager)
	if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
		p.log.Warn("cannot write the addresses of a node's pods; trying again", "node", to.Name, "error", err)
	}
	return err == nil
}

// maxPodProblems is the maximum number of problems that are logged at once.
const maxPodProblems = 20

// report logs the problems that are new, and counts all.
func (p *podPublisher) report(problems []string) {
	logged := 0
	for _, problem := range problems {
		if slices.Contains(p.problems, problem) {
			continue
		}
		if logged++; logged <= maxPodProblems {
			p.log.Warn("pods that remote clusters cannot reach", "problem", problem)
		}
	}
	if logged > maxPodProblems {
		p.log.Warn("more such problems", "count", logged-maxPodProblems)
	}
	p.problems = problems
	p.podProblems.Store(int64(len(problems)))
}
