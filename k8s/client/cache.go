package client

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Cache is a copy of objects that follows the API server while RunWithContext runs:
// client-go's informer, with typed Get and List. It is unchanged while the API server is
// unreachable. It is safe for concurrent use.
type Cache[T Object] struct {
	cache.SharedIndexInformer
}

// Cache returns a cache of the object with that name, or of all objects if name is empty.
// It is empty until it runs, and complete when HasSynced returns true.
func (k *Kind[T, L]) Cache(name string) *Cache[T] {
	var which metav1.ListOptions
	if name != "" {
		which.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
	return k.cache(which, false)
}

// CacheInPages is Cache for thousands of objects, of those that a label selector selects, empty for
// all: an unpaged list takes several times its memory while it is decoded. It costs the API server
// more, which has to read the latest state; do not use it on every node.
func (k *Kind[T, L]) CacheInPages(selector string) *Cache[T] {
	return k.cache(metav1.ListOptions{LabelSelector: selector}, true)
}

// CacheOfNode is CacheInPages for the pods of a node. With exactly this selection, a node may read
// them.
func (k *Kind[T, L]) CacheOfNode(node string) *Cache[T] {
	return k.cache(metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()}, true)
}

// cache returns a cache of the objects that the selectors of which select. It removes the managed
// fields, which are not read; SetTransform replaces that.
func (k *Kind[T, L]) cache(which metav1.ListOptions, paged bool) *Cache[T] {
	var example T
	informer := cache.NewSharedIndexInformer(k.source(which, paged), example, 0, cache.Indexers{})
	if err := informer.SetTransform(withoutManagedFields); err != nil {
		panic(err) // only fails for a running informer
	}
	return &Cache[T]{informer}
}

// Reflector returns a reflector that makes a store follow the objects that a label selector
// selects, while it runs; an empty selector selects all. It is for stores that keep less than
// a Cache, and lists in pages like CacheInPages.
func (k *Kind[T, L]) Reflector(selector string, store cache.ReflectorStore) *cache.Reflector {
	var example T
	return cache.NewReflectorWithOptions(k.source(metav1.ListOptions{LabelSelector: selector}, true), example, store, cache.ReflectorOptions{Name: k.resource})
}

// source lists and watches the objects that the selectors of which select.
func (k *Kind[T, L]) source(which metav1.ListOptions, paged bool) Lists {
	return Lists{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector, options.FieldSelector = which.LabelSelector, which.FieldSelector
			if paged {
				return k.listPages(ctx, options)
			}
			return k.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector, options.FieldSelector = which.LabelSelector, which.FieldSelector
			return k.Watch(ctx, options)
		},
	}}
}

const pageSize = 500

// listPages lists all objects, without their managed fields.
func (k *Kind[T, L]) listPages(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	var all []runtime.Object
	options.Limit, options.ResourceVersion, options.ResourceVersionMatch = pageSize, "", "" // version 0 does not support pages
	for {
		page, err := k.List(ctx, options)
		if err != nil {
			return nil, err
		}
		err = meta.EachListItem(page, func(item runtime.Object) error {
			item.(T).SetManagedFields(nil)
			all = append(all, item)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			whole := k.list()
			whole.SetResourceVersion(page.GetResourceVersion())
			return whole, meta.SetList(whole, all)
		}
	}
}

// Lists disables streaming lists (WatchList): with these, client-go keeps waiting for up to
// 30 s after its context has ended, and keeps all objects of the initial list.
type Lists struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported tells client-go to use plain lists.
func (Lists) IsWatchListSemanticsUnSupported() bool { return true }

// withoutManagedFields is a transform. Its argument is not shared with readers.
func withoutManagedFields(object any) (any, error) {
	if object, ok := object.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return object, nil
}

// Get returns the object with a key: its name, or namespace/name. It belongs to the cache:
// copy it before changing it.
func (c *Cache[T]) Get(key string) (object T, ok bool) {
	found, ok, err := c.GetStore().GetByKey(key)
	if err != nil || !ok {
		return object, false
	}
	return found.(T), true
}

// List returns all objects, sorted by namespace and name. They belong to the cache: copy
// one before changing it.
func (c *Cache[T]) List() []T {
	stored := c.GetStore().List()
	objects := make([]T, len(stored))
	for i, object := range stored {
		objects[i] = object.(T)
	}
	slices.SortFunc(objects, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return objects
}

// Signal tells one receiver of changes: those that it has not received yet are one. It is made
// with a capacity of one.
type Signal chan struct{}

// Set does not block. It may be called from any goroutine.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default: // the receiver will see this change, too
	}
}

// Notify calls changed after each change, and once for each existing object. changed must
// not block; it is called from one goroutine.
func (c *Cache[T]) Notify(changed func()) error {
	_, err := c.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	return err
}
