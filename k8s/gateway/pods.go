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

// pods are the pods of the cluster that need a route of their own, for they have an
// address outside of their node's podCIDRs. The others are forgotten as they come, so
// that memory does not grow with the number of pods.
//
// When a node loses a range, pods that were forgotten may matter: then all are listed
// anew.
type pods struct {
	api      *client.Kind[*corev1.Pod, *corev1.PodList]
	podCIDRs func(node string) []v1alpha1.CIDR
	changed  func()
	again    chan struct{} // list anew; room for one

	mu       sync.Mutex
	kept     map[types.NamespacedName]translate.Pod
	complete bool                       // all were listed
	gone     map[string][]v1alpha1.CIDR // podCIDRs of nodes that went since all were listed
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
		if c, err := netip.ParsePrefix(string(text)); err == nil { // else it holds no pod
			cidrs = append(cidrs, c)
		}
	}
	return !slices.ContainsFunc(pod.Addresses, func(text string) bool {
		a, err := netip.ParseAddr(text)
		return err != nil || !slices.ContainsFunc(cidrs, func(c netip.Prefix) bool { return c.Contains(a) })
	})
}

// list is the pods that matter, in no order.
func (p *pods) list() []translate.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.kept, func(_ types.NamespacedName, pod translate.Pod) bool { return p.inside(pod) }) // their node came after them
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

// keep keeps a pod, or forgets it where it is nil.
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
