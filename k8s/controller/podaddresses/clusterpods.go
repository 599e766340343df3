package podaddresses

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
