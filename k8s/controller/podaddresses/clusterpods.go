package podaddresses

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/k8s/client"
)

// clusterPods tracks the pods of the cluster that have an address outside of their node's
// podCIDRs. All other pods are discarded when they arrive, so that memory does not grow with
// the number of pods.
//
// When a node loses a CIDR, discarded pods may be outside: then all pods are listed again.
// It implements cache.ReflectorStore. It is safe for concurrent use.
type clusterPods struct {
	api      *client.Kind[*corev1.Pod, *corev1.PodList]
	podCIDRs func(node string) []string
	changed  func()
	again    client.Signal // list all pods again

	mu       sync.Mutex
	kept     map[types.NamespacedName]*clusterPod
	complete bool                // all were listed
	gone     map[string][]string // podCIDRs of nodes that were removed since the last full list
}

func newClusterPods(api *client.Kind[*corev1.Pod, *corev1.PodList], podCIDRs func(string) []string, changed func()) *clusterPods {
	return &clusterPods{
		api: api, podCIDRs: podCIDRs, changed: changed, again: make(client.Signal, 1),
		kept: make(map[types.NamespacedName]*clusterPod), gone: make(map[string][]string),
	}
}

// matters reports whether a pod has an address outside of its node's podCIDRs.
func (p *clusterPods) matters(pod *corev1.Pod) (*clusterPod, bool) {
	q, ok := clusterPodOf(pod)
	return q, ok && !p.inside(q)
}

func (p *clusterPods) inside(pod *clusterPod) bool {
	var cidrs []netip.Prefix
	for _, text := range p.podCIDRs(pod.node) {
		if c, err := netip.ParsePrefix(text); err == nil { // an invalid CIDR contains no pod
			cidrs = append(cidrs, c)
		}
	}
	return pod.invalid == "" && !slices.ContainsFunc(pod.addresses, func(a netip.Addr) bool {
		return !slices.ContainsFunc(cidrs, func(c netip.Prefix) bool { return c.Contains(a) })
	})
}

// list returns the pods with an address outside, in no order.
func (p *clusterPods) list() []*clusterPod {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.kept, func(_ types.NamespacedName, pod *clusterPod) bool { return p.inside(pod) }) // their node was added after them
	return slices.Collect(maps.Values(p.kept))
}

func (p *clusterPods) listed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.complete
}

func (p *clusterPods) Add(object any) error { return p.Update(object) }

func (p *clusterPods) Update(object any) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("a %T among the pods", object)
	}
	if q, ok := p.matters(pod); ok {
		p.keep(nameOf(pod), q)
	} else {
		p.keep(nameOf(pod), nil)
	}
	return nil
}

func (p *clusterPods) Delete(object any) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("a %T among the pods", object)
	}
	p.keep(nameOf(pod), nil)
	return nil
}

// keep stores a pod, or removes it if pod is nil.
func (p *clusterPods) keep(name types.NamespacedName, pod *clusterPod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, had := p.kept[name]
	if pod != nil {
		p.kept[name] = pod
	} else {
		delete(p.kept, name)
	}
	if had || pod != nil {
		p.changed()
	}
}

func (p *clusterPods) Replace(objects []any, _ string) error {
	kept := make(map[types.NamespacedName]*clusterPod)
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			if q, ok := p.matters(pod); ok {
				kept[nameOf(pod)] = q
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept, p.complete = kept, true
	p.changed()
	return nil
}

func (*clusterPods) Resync() error { return nil }

func nameOf(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

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
