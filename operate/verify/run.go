package verify

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/operate/operator"
)

// Options configure a run.
type Options struct {
	Image, RemoteImage string                        // of agents; empty: that of the installed Strait
	PullSecrets        []corev1.LocalObjectReference // in every namespace of agents
	Keep               bool                          // keep the agents for further analysis
	Say                func(line string)             // progress; nil: not reported. Called concurrently.
}

func (o *Options) say(line string) {
	if o.Say != nil {
		o.Say(line)
	}
}

// Run tests all paths between two joined clusters in both directions. peering is the name
// of the local cluster's Peering; empty: its only one with the other cluster. An error
// means that the test could not run; failed checks are in the report. Agents are removed at
// the end, even when ctx ends early, unless they are to be kept.
func Run(ctx context.Context, local, remote operator.Cluster, peering string, o Options) (r *Report, err error) {
	began := time.Now()
	a, b, err := operator.Pair(ctx, local, remote, peering)
	if err != nil {
		return nil, err
	}
	checks, up, err := settled(ctx, func(ctx context.Context) ([]Check, bool, error) { return peeringChecks(ctx, a, b) }, &o)
	if err != nil {
		return nil, err
	}
	if a, b, err = operator.Pair(ctx, local, remote, peering); err != nil { // they may have changed meanwhile
		return nil, err
	}
	r = &Report{MTU: int(min(a.Peering.Status.MTU, b.Peering.Status.MTU)), Checks: checks}
	defer func() { r.finish(began) }()
	states, shapes, err := readClusters(ctx, a, b)
	if err != nil {
		return nil, err
	}
	r.Clusters = shapes
	if !up {
		r.Checks = append(r.Checks, Check{Group: OfMatrix, From: states[0].id, To: states[1].id, What: wholeRow, Outcome: Skipped, Detail: "no link between the two clusters is up"})
		return r, nil
	}
	sites, err := openBoth(ctx, states, &o)
	if err != nil {
		return nil, err
	}
	if o.Keep {
		r.Kept = append(sites[0].kept(), sites[1].kept()...)
	} else {
		defer func() {
			o.say("removing the agents")
			err = errors.Join(err, closeBoth(context.WithoutCancel(ctx), sites))
		}()
	}
	checks, err = cross(ctx, sites, r.MTU, &o)
	r.Checks = append(r.Checks, checks...)
	return r, err
}

func readClusters(ctx context.Context, sides ...*operator.Side) (states [2]*clusterState, shapes []ClusterShape, err error) {
	for i, s := range sides {
		if states[i], err = readCluster(ctx, s); err != nil {
			return states, nil, err
		}
		shapes = append(shapes, states[i].shape())
	}
	return states, shapes, nil
}

// both calls a function with 0 and 1 at once.
func both(f func(i int) error) error {
	var failed [2]error
	var all sync.WaitGroup
	for i := range failed {
		all.Go(func() { failed[i] = f(i) })
	}
	all.Wait()
	return errors.Join(failed[:]...)
}

func openBoth(ctx context.Context, states [2]*clusterState, o *Options) (sites [2]*site, err error) {
	// The clusters may use different registries for the same image.
	images, suffix := [2]string{o.Image, o.RemoteImage}, rand.String(5) // the same namespaces: they share Services
	if o.RemoteImage == "" {
		images[1] = o.Image
	}
	err = both(func(i int) (err error) {
		sites[i], err = open(ctx, states[i], o, images[i], suffix)
		return err
	})
	if err != nil {
		return sites, errors.Join(err, closeBoth(context.WithoutCancel(ctx), sites))
	}
	sites[0].exchangeAddresses(sites[1])
	sites[1].exchangeAddresses(sites[0])
	return sites, nil
}

func closeBoth(ctx context.Context, sites [2]*site) error {
	return both(func(i int) error {
		if sites[i] == nil {
			return nil
		}
		return sites[i].close(ctx)
	})
}

// cross runs all checks between two clusters with agents.
func cross(ctx context.Context, sites [2]*site, mtu int, o *Options) ([]Check, error) {
	var marker endpoint.Marker
	_, _ = cryptorand.Read(marker[:]) // never fails
	o.say("exporting a Service for each pod")
	services, checks := shareServices(ctx, sites)
	watches := startWatches(ctx, sites, marker)
	defer watches.stop()
	shapes := [2]shape{sites[0].shaped(services[0]), sites[1].shaped(services[1])}
	flows := startFlows(ctx, sites, shapes, marker)
	defer flows.stop()
	var plans [2]plan
	total := 0
	for i := range sites {
		plans[i] = planOf(shapes[i], shapes[1-i], mtu)
		for _, sequence := range plans[i].sequences {
			total += len(sequence)
		}
	}
	o.say(fmt.Sprintf("running %d checks", total))
	var done [2][]Check
	err := both(func(i int) (err error) {
		done[i], err = sites[i].carryOut(ctx, plans[i], marker, mtu)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range sites {
		checks = append(append(checks, done[i]...), plans[i].skipped...)
	}
	checks = append(checks, flows.judge()...)
	return append(checks, watches.judge(sites)...), ctx.Err()
}

// carryOut has all agents of a cluster run their parts of a plan concurrently.
func (s *site) carryOut(ctx context.Context, p plan, marker endpoint.Marker, mtu int) (checks []Check, err error) {
	orders := map[string]*endpoint.Order{}
	places := map[string][]int{} // positions of an agent's checks in all
	var all []planned
	for _, sequence := range p.sequences {
		agent := sequence[0].agent
		if orders[agent] == nil {
			orders[agent] = &endpoint.Order{Marker: marker}
		}
		var to endpoint.Sequence
		for _, one := range sequence {
			to = append(to, one.probe)
			places[agent] = append(places[agent], len(all))
			all = append(all, one)
		}
		orders[agent].Sequences = append(orders[agent].Sequences, to)
	}
	checks = make([]Check, len(all))
	var mu sync.Mutex
	var agents sync.WaitGroup
	for agent, order := range orders {
		agents.Go(func() {
			results, failed := s.ask(ctx, agent, *order)
			mu.Lock()
			defer mu.Unlock()
			if failed == nil && len(results) != len(places[agent]) {
				failed = fmt.Errorf("cluster %s: agent %s reported %d of %d checks; check that its image has the version of this strait", s.id, agent, len(results), len(places[agent]))
			}
			if failed != nil {
				err = errors.Join(err, failed)
				return
			}
			for i, at := range places[agent] {
				checks[at] = judge(all[at], results[i], mtu)
			}
		})
	}
	agents.Wait()
	return checks, err
}
