package client

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Reflector returns a reflector that makes a store follow the objects that a label selector
// selects, while it runs; an empty selector selects all. It is for stores that keep less than
// a Cache, and lists in pages like CacheInPages.
func (k *Kind[T, L]) Reflector(selector string, store cache.ReflectorStore) *cache.Reflector {
	var example T
	return cache.NewReflectorWithOptions(Lists{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			return k.listPages(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return k.Watch(ctx, options)
		},
	}}, example, store, cache.ReflectorOptions{Name: k.resource})
}
