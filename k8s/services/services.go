// Package services implements the Multi-Cluster Services API in one cluster: it exports
// Services to remote clusters and imports theirs.
//
//	ServiceExport, Service, EndpointSlices → ExportedService          export.go
//	ReceivedServices, own export → the exports that count             received.go, quota.go
//	these → ServiceImport, derived Service, EndpointSlices            imports.go, endpoints.go
//	does the DNS server serve the names? → a condition of imports     named.go
//
// Gateways carry ExportedServices to remote clusters, where they become ReceivedServices.
//
// Unlike package controller, it does not work in passes over the whole cluster: a work queue
// has the Services that something changed about, by namespace and name, which identify a
// Service in all clusters. A Service is reconciled from caches, so that a change of one
// endpoint costs one write. No state is kept between reconciliations except to avoid
// requests.
package services

import (
	"context"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

// The chart has copies of the CRDs of the API.
//
//go:generate sh -c "install -m 644 $DOLLAR(go list -m -f '{{.Dir}}' sigs.k8s.io/mcs-api)/config/crd/*.yaml ../../charts/strait/files/multicluster/"

// Options configure a Controller.
type Options struct {
	Client    *client.Client
	Namespace string // of the gateways: that of ExportedServices and ReceivedServices
	Networks  *client.Cache[*v1alpha1.ClusterNetwork]
	Peerings  *client.Cache[*v1alpha1.Peering]
	Resolver  Resolver // nil: the DNS server of the cluster is not asked
	Changed   func()   // Summary has changed; must not block
	Log       *slog.Logger

	// WithoutNodes: the cluster has no node helpers. The endpoints of imports from remote
	// clusters are gateways, which carry the connections.
	WithoutNodes bool
}

// Controller exports and imports the Services of a cluster. It is safe for concurrent use.
type Controller struct {
	Options
	summaries summaries
	missing   sync.Once            // the message that CRDs are missing
	named     atomic.Pointer[bool] // whether the DNS server serves Zone; nil: not known

	exports    *store[*mcsv1beta1.ServiceExport, *mcsv1beta1.ServiceExportList]
	imports    *store[*mcsv1beta1.ServiceImport, *mcsv1beta1.ServiceImportList]
	exported   *store[*v1alpha1.ExportedService, *v1alpha1.ExportedServiceList]
	services   *store[*corev1.Service, *corev1.ServiceList]
	slices     *store[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList]
	received   *store[*v1alpha1.ReceivedService, *v1alpha1.ReceivedServiceList]
	namespaces *client.Cache[*corev1.Namespace]
}

// New returns a controller. The caches of the options need not run yet.
func New(o Options) (*Controller, error) {
	c := &Controller{
		Options:    o,
		exports:    newStore(o.Client.ServiceExports, o.Client.ServiceExports("").CacheInPages(""), ownOfExport, ownOfExport, "ServiceExport", o.Log),
		imports:    newStore(o.Client.ServiceImports, o.Client.ServiceImports("").CacheInPages(""), ownOfImport, ownOfImportStatus, "ServiceImport", o.Log),
		exported:   newStore(o.Client.ExportedServices, o.Client.ExportedServices(o.Namespace).CacheInPages(""), ownOfExported, nil, "ExportedService", o.Log),
		services:   newStore(o.Client.Services, o.Client.Services("").CacheInPages(""), ownOfService, nil, "Service", o.Log),
		slices:     newStore(o.Client.EndpointSlices, o.Client.EndpointSlices("").CacheInPages(""), ownOfSlice, nil, "EndpointSlice", o.Log),
		received:   newStore(o.Client.ReceivedServices, o.Client.ReceivedServices(o.Namespace).CacheInPages(""), nil, ownOfReceived, "ReceivedService", o.Log),
		namespaces: o.Client.Namespaces().CacheInPages(""),
	}
	for _, prepare := range []func() error{
		func() error { return c.services.cache.SetTransform(trimService) },
		func() error { return c.slices.cache.SetTransform(trimSlice) },
		func() error { return c.namespaces.SetTransform(trimNamespace) },
		func() error { return c.received.cache.SetTransform(trimReceived) },
		func() error { return c.exports.cache.SetWatchErrorHandlerWithContext(c.watchFailed) },
		func() error { return c.imports.cache.SetWatchErrorHandlerWithContext(c.watchFailed) },
		func() error { return c.slices.cache.AddIndexers(sliceIndexers) },
		func() error { return c.received.cache.AddIndexers(receivedIndexers) },
	} {
		if err := prepare(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Run keeps the caches up to date until ctx ends. While the API server does not serve the
// Multi-Cluster Services API, it tries again, and Work waits.
func (c *Controller) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, informer := range c.informers() {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
}

// watchFailed logs once that the API server does not serve the Multi-Cluster Services API,
// and every other error.
func (c *Controller) watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	if !apierrors.IsNotFound(err) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
		return
	}
	c.missing.Do(func() {
		c.Log.Warn("the CRDs of the Multi-Cluster Services API (v1beta1) are not installed, so Services are neither exported nor imported; install them, or disable services.enabled of the chart")
	})
}

func (c *Controller) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{
		c.exports.cache, c.imports.cache, c.exported.cache, c.services.cache, c.slices.cache, c.received.cache, c.namespaces,
	}
}

const (
	workers   = 8                // Services that are reconciled at once
	firstWait = time.Second / 20 // before a failed reconciliation is repeated
	longest   = time.Minute      // of these waits, which double

	repairDelay = time.Second // see repair
)

// key identifies a Service in all clusters. The zero key stands for the summaries, and one
// without a namespace for the quota of a Peering.
type key struct{ namespace, name string }

func quotaOf(peering string) key { return key{name: peering} }

func (k key) String() string { return k.namespace + "/" + k.name }

// work is the state of one call of Work.
type work struct {
	*Controller
	queue  workqueue.TypedRateLimitingInterface[key]
	quotas quotas
	judged verdicts
	ports  gatewayPorts // used WithoutNodes

	unconfirmed unconfirmed
}

// Work reconciles all Services until ctx ends. One call at a time works in a cluster.
func (c *Controller) Work(ctx context.Context) {
	synced := []cache.InformerSynced{c.Networks.HasSynced, c.Peerings.HasSynced}
	for _, informer := range c.informers() {
		synced = append(synced, informer.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	w := &work{Controller: c}
	w.queue = workQueue(newTurns(w.peeringsOf))
	w.quotas.init()
	w.unconfirmed.until = make(map[key]time.Time)
	w.judged.byService = make(map[key]map[string]verdict)
	for _, follow := range w.handlers() {
		registered, err := follow.informer.AddEventHandler(follow.handler)
		if err != nil { // the informer has stopped
			w.queue.ShutDown()
			return
		}
		defer func() { _ = follow.informer.RemoveEventHandler(registered) }()
	}
	w.askDNS(ctx)                         // first, so that each import has one write of its status
	w.ports.take(c.received.cache.List()) // what is deleted from now on is released
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for w.next(ctx) {
			}
		})
	}
	if w.Resolver != nil {
		working.Go(func() { w.followDNS(ctx) })
	}
	<-ctx.Done()
	w.queue.ShutDown()
	working.Wait()
}

// next handles one key, and reports false when the queue is shut down.
func (w *work) next(ctx context.Context) bool {
	k, down := w.queue.Get()
	if down {
		return false
	}
	defer w.queue.Done(k)
	switch {
	case k == (key{}):
		w.summarize()
		return true
	case k == quotaOf(k.name):
		w.quotas.again(w, k.name)
		return true
	}
	wrote, err := w.reconcile(ctx, k)
	unconfirmed := w.unconfirmed.left(k, wrote, time.Now())
	switch {
	case ctx.Err() != nil:
	case err != nil:
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) { // those mean that a cache is behind
			w.Log.Warn("cannot export or import a Service; trying again", "service", k, "error", err)
		}
		w.queue.AddRateLimited(k)
		return true
	case unconfirmed > 0:
		w.queue.AddAfter(k, unconfirmed)
	}
	w.queue.Forget(k)
	return true
}

type handler struct {
	informer cache.SharedIndexInformer
	handler  cache.ResourceEventHandler
}

// handlers put the keys of changed objects into the queue. Each is called once for every
// object that exists.
func (w *work) handlers() []handler {
	return []handler{
		{w.exports.cache, onChange(w.exports.forget, func(e *mcsv1beta1.ServiceExport) { w.queue.Add(key{e.Namespace, e.Name}) }, sameVersion)},
		{w.imports.cache, onChange(w.imports.forget, func(i *mcsv1beta1.ServiceImport) { w.repair(key{i.Namespace, i.Name}) }, sameVersion)},
		{w.exported.cache, onChange(w.exported.forget, func(e *v1alpha1.ExportedService) { w.repair(key{e.Spec.Namespace, e.Spec.Name}) }, sameVersion)},
		{w.services.cache, onChange(w.services.forget, func(s *corev1.Service) { w.concerns(s.Namespace, s.Labels[ImportLabel], s.Name) }, sameVersion)},
		{w.slices.cache, onChange(w.slices.forget, func(s *discoveryv1.EndpointSlice) {
			w.concerns(s.Namespace, s.Labels[ImportLabel], s.Labels[discoveryv1.LabelServiceName])
		}, sameVersion)},
		{w.received.cache, onChange(w.forgetReceived, func(r *v1alpha1.ReceivedService) {
			if w.quotas.forget(r.Spec.Peering) {
				w.queue.Add(quotaOf(r.Spec.Peering))
			}
			w.queue.Add(key{r.Spec.Service.Namespace, r.Spec.Service.Name})
		}, sameVersion)},
		{w.namespaces, onChange(nil, func(n *corev1.Namespace) { w.addAll(byNamespace, n.Name) }, sameVersion)},
		{w.Networks, onChange(nil, func(*v1alpha1.ClusterNetwork) { w.addEverything() }, func(was, is *v1alpha1.ClusterNetwork) bool {
			return reflect.DeepEqual(clusterOf(was), clusterOf(is))
		})},
		{w.Peerings, onChange(nil, func(p *v1alpha1.Peering) { w.peeringChanged(p.Name) }, func(was, is *v1alpha1.Peering) bool {
			now := time.Now()
			return was.UID == is.UID && reflect.DeepEqual(w.remoteOf(was, now), w.remoteOf(is, now))
		})},
	}
}

func sameVersion[T client.Object](was, is T) bool {
	return was.GetResourceVersion() == is.GetResourceVersion()
}

// onChange returns a handler that calls changed for each object that is added, is not the same as
// before, or is deleted, and forget for the key of each that is deleted.
func onChange[T client.Object](forget func(string), changed func(T), same func(was, is T) bool) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { changed(object.(T)) },
		UpdateFunc: func(was, is any) {
			if !same(was.(T), is.(T)) {
				changed(is.(T))
			}
		},
		DeleteFunc: func(object any) {
			if object, ok := gone[T](object); ok {
				if forget != nil {
					forget(keyOf(object))
				}
				changed(object)
			}
		},
	}
}

func gone[T client.Object](object any) (T, bool) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	is, ok := object.(T)
	return is, ok
}

func (w *work) forgetReceived(key string) {
	w.received.forget(key)
	w.ports.release(strings.TrimPrefix(key, w.Namespace+"/"), time.Now())
}

// concerns adds the Service of an import that an object belongs to, or else the Service of
// that name if it is exported. The event of its ServiceExport adds it otherwise.
func (w *work) concerns(namespace, imported, service string) {
	if imported != "" {
		w.repair(key{namespace, imported})
	} else if _, ok := w.exports.get(namespace + "/" + service); ok {
		w.queue.Add(key{namespace, service})
	}
}

// repair adds the Service of an object that this controller writes. Its own writes come back
// here too. The delay collects changes; see contests for an object that another writer keeps
// changing.
func (w *work) repair(k key) { w.queue.AddAfter(k, repairDelay) }

func (w *work) peeringChanged(peering string) {
	w.quotas.forget(peering)
	w.addAll(byPeering, peering)
	w.queue.AddAfter(key{}, summaryDelay)
}

// addAll adds the Services of the ReceivedServices that an index has under a name.
func (w *work) addAll(index, name string) {
	for _, r := range w.indexed(index, name) {
		w.queue.Add(key{r.Spec.Service.Namespace, r.Spec.Service.Name})
	}
	if index == byNamespace {
		for _, e := range w.exports.cache.List() {
			if e.Namespace == name {
				w.queue.Add(key{e.Namespace, e.Name})
			}
		}
	}
}

func (w *work) addEverything() {
	for _, r := range w.received.cache.List() {
		w.queue.Add(key{r.Spec.Service.Namespace, r.Spec.Service.Name})
	}
	for _, e := range w.exports.cache.List() {
		w.queue.Add(key{e.Namespace, e.Name})
	}
}

// reconcile exports and imports the Service of a name, and reports whether it wrote
// anything.
func (w *work) reconcile(ctx context.Context, k key) (wrote bool, err error) {
	r := &reconciliation{work: w, key: k, now: time.Now(), verdicts: make(map[string]verdict)}
	if network, ok := w.Networks.Get(v1alpha1.ClusterNetworkName); ok {
		r.cluster = clusterOf(network)
	}
	err = r.run(ctx)
	return r.wrote, err
}

type cluster struct {
	id           string // empty: not known yet
	families     []corev1.IPFamily
	uninstalling bool
}

func clusterOf(n *v1alpha1.ClusterNetwork) cluster {
	_, uninstalling := n.Annotations[v1alpha1.UninstallAnnotation]
	return cluster{id: string(n.Status.ClusterID), families: familiesOf(n.Status.ServiceCIDRs), uninstalling: uninstalling}
}

func (k key) exportedName() string { return k.name + "." + k.namespace }

func owner(of *mcsv1beta1.ServiceImport) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceImportKindName, Name: of.Name, UID: of.UID}
}
