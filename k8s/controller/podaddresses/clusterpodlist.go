package podaddresses

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

func (p *clusterPods) run(ctx context.Context) {
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

func (p *clusterPods) source() cache.ListerWatcher {
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

// listPages lists all pods and keeps those of each page that matter.
func (p *clusterPods) listPages(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
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

func (p *clusterPods) follow(nodes *client.Cache[*corev1.Node]) error {
	_, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(added any) { p.nodeAdded(added.(*corev1.Node)) },
		UpdateFunc: func(old, new any) { p.compare(old.(*corev1.Node).Spec.PodCIDRs, new.(*corev1.Node).Spec.PodCIDRs) },
		DeleteFunc: func(deleted any) {
			if n, ok := deleted.(*corev1.Node); ok {
				p.nodeDeleted(n)
			}
		},
	})
	return err
}

func (p *Publisher) podCIDRs(node string) []string {
	n, ok := p.Nodes.Get(node)
	if !ok {
		return nil
	}
	return n.Spec.PodCIDRs
}

// nodeAdded lists all pods again if the node existed before with other podCIDRs.
func (p *clusterPods) nodeAdded(n *corev1.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compare(p.gone[n.Name], n.Spec.PodCIDRs)
	delete(p.gone, n.Name)
}

// nodeDeleted remembers the podCIDRs of a node.
func (p *clusterPods) nodeDeleted(n *corev1.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone[n.Name] = n.Spec.PodCIDRs
	if len(p.gone) > maxRemovedNodes {
		p.again.Set()
	}
}

// compare lists all pods again if a node has lost a CIDR.
func (p *clusterPods) compare(old, new []string) {
	if slices.ContainsFunc(old, func(c string) bool { return !slices.Contains(new, c) }) {
		p.again.Set()
	}
}
