package lender

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// space is what is known about a namespace that is lent, or was.
type space struct {
	records *client.Cache[*corev1.PodTemplate]
	twins   *client.Cache[*corev1.Pod]
	configs *client.Cache[*corev1.ConfigMap] // without their contents
	secrets *client.Cache[*corev1.Secret]    // without their contents

	services  *client.Cache[*corev1.Service]
	endpoints *client.Cache[*discoveryv1.EndpointSlice]
	quotas    *client.Cache[*corev1.ResourceQuota] // all, also of others

	stop    context.CancelFunc
	refused atomic.Int64 // when the API server last refused to let it be read, in Unix nanoseconds
}

const (
	// refusedFor is for how long a refusal counts: a cache asks again within 30 s.
	refusedFor = 2 * time.Minute
	// refusedEvery is how often one is logged.
	refusedEvery = 10 * time.Minute
)

type following interface {
	cache.SharedIndexInformer
	Notify(changed func()) error
}

func (s *space) caches() []following {
	return []following{s.records, s.twins, s.configs, s.secrets, s.services, s.endpoints, s.quotas}
}

// empty reports whether nothing of the Peering is in a namespace.
func (s *space) empty() bool {
	return s.read() && len(s.records.List())+len(s.twins.List())+len(s.configs.List())+len(s.secrets.List())+len(s.services.List())+len(s.endpoints.List()) == 0
}

func (s *space) read() bool {
	return !slices.ContainsFunc(s.caches(), func(c following) bool { return !c.HasSynced() })
}

// namespaces returns what is known about the namespaces that are lent, and about others that were: in
// which something of the Peering is left, or of which the list names pods, whose end the borrower
// has to learn. It starts to follow new ones. retry is whether to call it again without a change.
func (l *lender) namespaces(ctx context.Context) (all map[string]Namespace, retry bool) {
	lent := make(map[string]bool)
	var resources corev1.ResourceList
	if p, ok := l.peerings.Get(l.Peering); ok && p.Spec.Lend != nil {
		resources = p.Spec.Lend.Resources
		for _, name := range p.Spec.Lend.Namespaces {
			lent[name] = true
			l.follow(ctx, name)
		}
	}
	l.mu.Lock()
	listed := l.state.Namespaces()
	l.mu.Unlock()
	maps.DeleteFunc(l.barred, func(name string, _ bool) bool { return lent[name] || !listed[name] })
	for name := range listed {
		if _, barred := l.barred[name]; !barred && !lent[name] && l.spaces[name] == nil && !retry {
			retry = !l.followFormer(ctx, name)
		}
	}
	all = make(map[string]Namespace, len(l.spaces))
	now := time.Now()
	for name, s := range l.spaces {
		barred := now.UnixNano()-s.refused.Load() < int64(refusedFor)
		if !lent[name] && (barred || !listed[name] && s.empty()) {
			s.stop()
			l.mu.Lock()
			delete(l.spaces, name)
			l.mu.Unlock()
			if barred && listed[name] {
				l.barred[name] = s.empty()
			}
			continue
		}
		n := Namespace{Lent: lent[name], Resources: resources, Read: s.read()}
		if n.Read {
			n.Records, n.Twins = s.records.List(), s.twins.List()
			n.Services, n.Endpoints, n.Quotas = s.services.List(), s.endpoints.List(), s.quotas.List()
			n.Copies = slices.Concat(describe(protocol.KindConfigMap, s.configs.List()), describe(protocol.KindSecret, s.secrets.List()))
		}
		all[name] = n
	}
	for name, empty := range l.barred {
		all[name] = Namespace{Read: empty}
	}
	return all, retry
}

// followFormer follows a namespace that is not lent, if the lender has rights in it: then it was lent
// to the Peering before this run. It returns false if the API server does not say so now.
func (l *lender) followFormer(ctx context.Context, name string) bool {
	if l.spend() != nil {
		return false
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := l.Client.PodTemplates(name).List(within, metav1.ListOptions{Limit: 1})
	switch {
	case apierrors.IsForbidden(err):
		l.barred[name] = false
	case err != nil:
		return false
	default:
		l.follow(ctx, name)
	}
	return true
}

// follow starts to follow a namespace, unless it does. The caches have only objects of the Peering.
func (l *lender) follow(ctx context.Context, namespace string) {
	if l.spaces[namespace] != nil {
		return
	}
	ours := translate.PeeringLabel + "=" + l.Peering
	s := &space{
		records: l.Client.PodTemplates(namespace).CacheInPages(ours),
		twins:   l.Client.Pods(namespace).CacheInPages(ours),
		configs: l.Client.ConfigMaps(namespace).CacheInPages(ours),
		secrets: l.Client.Secrets(namespace).CacheInPages(ours),

		services:  l.Client.Services(namespace).CacheInPages(ours),
		endpoints: l.Client.EndpointSlices(namespace).CacheInPages(ours + "," + discoveryv1.LabelManagedBy + "=" + translate.ManagedBy),
		quotas:    l.Client.ResourceQuotas(namespace).CacheInPages(""),
	}
	ctx, s.stop = context.WithCancel(ctx)
	for _, err := range []error{s.configs.SetTransform(digest), s.secrets.SetTransform(digest)} {
		if err != nil {
			panic(err) // only of a running or stopped cache
		}
	}
	failed := func(ctx context.Context, r *cache.Reflector, err error) {
		if !apierrors.IsForbidden(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		now := time.Now().UnixNano()
		if before := s.refused.Swap(now); now-before > int64(refusedEvery) {
			l.log.Warn("the lender may not read a namespace; if it is lent, run strait lend again", "namespace", namespace, "error", err)
		}
		l.loop.Wake()
	}
	for _, c := range s.caches() {
		if err := errors.Join(c.SetWatchErrorHandlerWithContext(failed), c.Notify(l.loop.Wake)); err != nil {
			panic(err) // only of a running or stopped cache
		}
		l.caches.Go(func() { c.RunWithContext(ctx) })
	}
	l.caches.Go(func() { l.loop.WakeWhen(ctx, s.read) }) // an empty namespace notifies of nothing
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spaces[namespace] = s
}
