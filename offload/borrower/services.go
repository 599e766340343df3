package borrower

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// space is a namespace whose Services the provider gets.
type space struct {
	services  *client.Cache[*corev1.Service]
	endpoints *client.Cache[*discoveryv1.EndpointSlice]
	stop      context.CancelFunc
}

func (s *space) read() bool { return s.services.HasSynced() && s.endpoints.HasSynced() }

// carried is a Service of the list, at a version of it and of its EndpointSlices.
type carried struct {
	version string
	object  protocol.Object // without a hash if it is refused
}

// follow follows the namespaces whose Services the provider gets: those that are lent, and
// offloaded or with pods that were.
func (b *borrower) follow(ctx context.Context, lent []string, pods []*corev1.Pod, now time.Time) error {
	keep := make(map[string]bool)
	for _, pod := range pods {
		if offered(pod) {
			keep[pod.Namespace] = true
		}
	}
	for _, name := range lent {
		switch b.consent(ctx, name, now) {
		case ConsentGiven:
			keep[name] = true
		case ConsentUnknown:
			keep[name] = keep[name] || b.spaces[name] != nil
		}
	}
	for name, s := range b.spaces {
		if !keep[name] || !slices.Contains(lent, name) {
			s.stop()
			delete(b.spaces, name)
		}
	}
	for _, name := range lent {
		if !keep[name] || b.spaces[name] != nil {
			continue
		}
		within, stop := context.WithCancel(ctx)
		s := &space{services: b.own.Services(name).CacheInPages(""), endpoints: b.own.EndpointSlices(name).CacheInPages(""), stop: stop}
		b.spaces[name] = s
		if err := errors.Join(s.services.Notify(b.loop.Wake), s.endpoints.Notify(b.loop.Wake)); err != nil {
			return err
		}
		b.caches.Go(func() { s.services.RunWithContext(within) })
		b.caches.Go(func() { s.endpoints.RunWithContext(within) })
		b.caches.Go(func() { b.loop.WakeWhen(within, s.read) }) // an empty namespace notifies of nothing
	}
	return nil
}

// unread returns the namespaces whose Services are not known: those that the provider may have of
// them stay. An incomplete cache, or a namespace whose consent is not known, is no reason to
// delete them.
func (b *borrower) unread(lent []string, pods []*corev1.Pod) (all []string) {
	names := make(map[string]bool)
	for _, pod := range pods {
		if offered(pod) {
			names[pod.Namespace] = true
		}
	}
	for _, name := range lent {
		if b.consents[name].is != ConsentMissing {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if s := b.spaces[name]; s == nil || !s.read() {
			all = append(all, name)
		}
	}
	return all
}

// services returns the Services for the list. It encodes those that have changed.
func (b *borrower) services() (all []protocol.Object) {
	seen := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(b.spaces)) {
		s := b.spaces[name]
		if !s.read() {
			continue
		}
		endpoints := s.byService()
		for _, service := range s.services.List() {
			if !translate.Carried(service) {
				continue
			}
			key := protocol.ObjectKey(protocol.KindService, name, service.Name)
			seen[key] = true
			version := service.ResourceVersion
			for _, slice := range endpoints[service.Name] {
				version += " " + slice.Name + " " + slice.ResourceVersion
			}
			if b.carried[key].version != version {
				is := carried{version, protocol.Object{Kind: protocol.KindService, Namespace: name, Name: service.Name}}
				if text, hash, err := encodeService(service, endpoints[service.Name], b.node.Name); err == nil {
					is.object.Hash, is.object.Size = hash, len(text)
				} else {
					b.log.Warn("the other cluster does not get a Service; what it has of it stays as it is", "namespace", name, "service", service.Name, "error", err)
				}
				b.carried[key] = is
			}
			all = append(all, b.carried[key].object)
		}
	}
	maps.DeleteFunc(b.carried, func(key string, _ carried) bool { return !seen[key] })
	return all
}

func (s *space) byService() map[string][]*discoveryv1.EndpointSlice {
	all := make(map[string][]*discoveryv1.EndpointSlice)
	for _, slice := range s.endpoints.List() {
		if of := slice.Labels[discoveryv1.LabelServiceName]; of != "" {
			all[of] = append(all[of], slice)
		}
	}
	return all
}

func encodeService(service *corev1.Service, endpoints []*discoveryv1.EndpointSlice, node string) (text []byte, hash string, err error) {
	c, err := translate.ServiceContent(service, endpoints, node)
	if err != nil {
		return nil, "", err
	}
	return protocol.EncodeContent(c)
}

func (b *borrower) sendServices(ctx context.Context, needs []string, now time.Time) error {
	for key, is := range b.carried {
		o := is.object
		if o.Hash == "" || !slices.Contains(needs, o.Hash) || now.Sub(b.sent[o.Hash]) < resend {
			continue
		}
		s := b.spaces[o.Namespace]
		service, ok := s.services.Get(strings.TrimPrefix(key, protocol.KindService+" "))
		if !ok {
			continue // the next list does not have it
		}
		text, hash, err := encodeService(service, s.byService()[o.Name], b.node.Name)
		if err != nil || hash != o.Hash {
			continue // nor this content
		}
		if err := b.link.put(ctx, protocol.ObjectsPath+hash, text); err != nil {
			return err
		}
		b.sent[hash] = now
	}
	return nil
}
