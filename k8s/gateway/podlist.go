package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/k8s/client"

	"strait.dev/strait/k8s/api/v1alpha1"
)

const (
	// podPage is the page size of pod lists.
	podPage = 500
	// listInterval is the minimum interval between two full lists of pods that changes of
	// nodes require.
	listInterval = 10 * time.Second
	// maxRemovedNodes is the maximum number of removed nodes that are remembered.
	maxRemovedNodes = 10_000
)

// run follows the API server until ctx ends.
func (p *pods) run(ctx context.Context) {
	for ctx.Err() == nil {
		within, stop := context.WithCancel(ctx)
		var following sync.WaitGroup
		following.Go(func() {
			cache.NewReflectorWithOptions(p.source(), &corev1.Pod{}, p, cache.ReflectorOptions{Name: "pods"}).RunWithContext(within)
		})
		select {
		case <-ctx.Done():
		case <-time.After(listInterval):
			select {
			case <-ctx.Done():
			case <-p.again:
			}
		}
		stop()
		following.Wait()
	}
}

// source lists and watches pods that run on a node.
func (p *pods) source() cache.ListerWatcher {
	const running = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
	return client.Lists{ListWatch: &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			return p.listPages(ctx, metav1.ListOptions{FieldSelector: running, Limit: podPage})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = running
			return p.api.Watch(ctx, options)
		},
	}}
}

// listPages lists all pods and keeps those of each page that need a route.
func (p *pods) listPages(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
	p.mu.Lock()
	clear(p.gone)
	p.mu.Unlock()
	all := new(corev1.PodList)
	for {
		page, err := p.api.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if _, ok := p.matters(&page.Items[i]); ok {
				all.Items = append(all.Items, page.Items[i])
			}
		}
		if all.ResourceVersion = page.ResourceVersion; page.Continue == "" {
			return all, nil
		}
		options.Continue = page.Continue
	}
}

// nodeAdded lists all pods again if the node existed before with other podCIDRs.
func (p *pods) nodeAdded(n *v1alpha1.NodeAttachment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compare(p.gone[n.Name], n.Spec.PodCIDRs)
	delete(p.gone, n.Name)
}

// nodeChanged lists all pods again if the node has lost a CIDR.
func (p *pods) nodeChanged(old, new *v1alpha1.NodeAttachment) {
	p.compare(old.Spec.PodCIDRs, new.Spec.PodCIDRs)
}

// nodeDeleted remembers the podCIDRs of a node. No pod needs a route to it now.
func (p *pods) nodeDeleted(n *v1alpha1.NodeAttachment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone[n.Name] = n.Spec.PodCIDRs
	if len(p.gone) > maxRemovedNodes {
		p.listAgain()
	}
}

func (p *pods) compare(old, new []v1alpha1.CIDR) {
	if slices.ContainsFunc(old, func(c v1alpha1.CIDR) bool { return !slices.Contains(new, c) }) {
		p.listAgain()
	}
}

// listAgain makes run list all pods again later.
func (p *pods) listAgain() {
	select {
	case p.again <- struct{}{}:
	default: // a request is pending
	}
}
