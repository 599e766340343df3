package gateway

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/translate"
)

// pods tracks the pods of the cluster that need a route of their own, because they have an
// address outside of their node's podCIDRs. All other pods are discarded when they arrive,
// so that memory does not grow with the number of pods.
//
// When a node loses a CIDR, discarded pods may need a route: then all pods are listed
// again.
type pods struct {
	api      *client.Kind[*corev1.Pod, *corev1.PodList]
	podCIDRs func(node string) []v1alpha1.CIDR
	changed  func()
	again    chan struct{} // list all pods again; capacity one

	mu       sync.Mutex
	kept     map[types.NamespacedName]translate.Pod
	complete bool                       // all were listed
	gone     map[string][]v1alpha1.CIDR // podCIDRs of nodes that were removed since the last full list
}

func newPods(api *client.Kind[*corev1.Pod, *corev1.PodList], podCIDRs func(string) []v1alpha1.CIDR, changed func()) *pods {
	return &pods{
		api: api, podCIDRs: podCIDRs, changed: changed, again: make(chan struct{}, 1),
		kept: make(map[types.NamespacedName]translate.Pod), gone: make(map[string][]v1alpha1.CIDR),
	}
}

// matters reports whether a pod needs a route of its own.
func (p *pods) matters(pod *corev1.Pod) (translate.Pod, bool) {
	q, ok := translate.PodOf(pod)
	return q, ok && !p.inside(q)
}

// inside reports whether all addresses of a pod lie in its node's podCIDRs.
func (p *pods) inside(pod translate.Pod) bool {
	var cidrs []netip.Prefix
	for _, text := range p.podCIDRs(pod.Node) {
		if c, err := netip.ParsePrefix(string(text)); err == nil { // an invalid CIDR contains no pod
			cidrs = append(cidrs, c)
		}
	}
	return !slices.ContainsFunc(pod.Addresses, func(text string) bool {
		a, err := netip.ParseAddr(text)
		return err != nil || !slices.ContainsFunc(cidrs, func(c netip.Prefix) bool { return c.Contains(a) })
	})
}

// list returns the pods that need a route, in no order.
func (p *pods) list() []translate.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.kept, func(_ types.NamespacedName, pod translate.Pod) bool { return p.inside(pod) }) // their node was added after them
	return slices.Collect(maps.Values(p.kept))
}

// listed reports whether all pods were listed once.
func (p *pods) listed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.complete
}

// Add implements cache.ReflectorStore.
func (p *pods) Add(object any) error { return p.Update(object) }

// Update implements cache.ReflectorStore.
func (p *pods) Update(object any) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("a %T among the pods", object)
	}
	if q, ok := p.matters(pod); ok {
		p.keep(nameOf(pod), &q)
	} else {
		p.keep(nameOf(pod), nil)
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (p *pods) Delete(object any) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("a %T among the pods", object)
	}
	p.keep(nameOf(pod), nil)
	return nil
}

// keep stores a pod, or removes it if pod is nil.
func (p *pods) keep(name types.NamespacedName, pod *translate.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, had := p.kept[name]
	if pod != nil {
		p.kept[name] = *pod
	} else {
		delete(p.kept, name)
	}
	if had || pod != nil {
		p.changed()
	}
}

// Replace implements cache.ReflectorStore: these are all pods.
func (p *pods) Replace(objects []any, _ string) error {
	kept := make(map[types.NamespacedName]translate.Pod)
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

// Resync implements cache.ReflectorStore.
func (*pods) Resync() error { return nil }

func nameOf(p *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}
