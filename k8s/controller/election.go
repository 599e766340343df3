package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseName is the Lease in the controller's namespace.
const leaseName = "strait-controller"

// How long a lease holds that is not renewed, after what time of failures its holder
// pauses, and how often each tries: the times of Kubernetes' own controllers.
var leaseFor, renewWithin, retryEvery = 15 * time.Second, 10 * time.Second, 2 * time.Second

// lead calls work whenever this process holds the lease, with a context that ends when
// the lease is lost, one call at a time, until ctx ends. Of several processes one works,
// as a rule: a lease does not stop a process that was suspended and wakes up late, nor
// one whose clock runs slow. Claims make that harmless.
func (c *controller) lead(ctx context.Context, o Options, work func(context.Context)) error {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, o.Namespace, leaseName,
		c.client.Kubernetes.CoreV1(), c.client.Kubernetes.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: o.Identity})
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	log := c.log.With("lease", o.Namespace+"/"+leaseName, "identity", o.Identity)
	terms := make(chan context.Context)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: leaseName, Lock: lock,
		LeaseDuration: leaseFor, RenewDeadline: renewWithin, RetryPeriod: retryEvery,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(term context.Context) {
				select {
				case terms <- term:
				case <-term.Done():
				}
			},
			OnStoppedLeading: func() { log.Info("waiting for the lease") },
		},
	})
	if err != nil {
		return fmt.Errorf("controller: %w", err)
	}
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case term := <-terms:
				log.Info("leading")
				work(term)
			}
		}
	})
	for ctx.Err() == nil {
		elector.Run(ctx)
	}
	return nil
}
