package gateway

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/services/merge"
)

// storedService is what the gateway remembers of a ReceivedService.
type storedService struct {
	key       control.ServiceKey
	endpoints int
	bytes     int      // as merge.Size counts them
	hash      [16]byte // of everything that the gateway writes
}

func storedServiceOf(o *v1alpha1.ReceivedService) (storedService, error) {
	text, err := json.Marshal(struct {
		Owners []metav1.OwnerReference
		Spec   *v1alpha1.ReceivedServiceSpec
	}{o.OwnerReferences, &o.Spec})
	if err != nil {
		return storedService{}, err
	}
	sum := sha256.Sum256(text)
	key := control.ServiceKey{Namespace: o.Spec.Service.Namespace, Name: o.Spec.Service.Name}
	return storedService{key, merge.Endpoints(&o.Spec.Service), merge.Size(&o.Spec.Service), [16]byte(sum[:])}, nil
}

// receivedObjects are the ReceivedServices of a Peering as the API server has them. It
// implements cache.ReflectorStore.
type receivedObjects struct {
	listed chan struct{} // closed after the first list

	mu  sync.Mutex
	all map[string]storedService // by name of the object
}

func newReceivedObjects() *receivedObjects {
	return &receivedObjects{listed: make(chan struct{})}
}

func (r *receivedObjects) copy() map[string]storedService {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.all)
}

func (r *receivedObjects) Add(object any) error { return r.Update(object) }

func (r *receivedObjects) Update(object any) error {
	o, s, err := receivedObject(object)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[o.Name] = s
	return nil
}

func (r *receivedObjects) Delete(object any) error {
	o, _, err := receivedObject(object)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, o.Name)
	return nil
}

func (r *receivedObjects) Replace(objects []any, _ string) error {
	all := make(map[string]storedService, len(objects))
	for _, object := range objects {
		o, s, err := receivedObject(object)
		if err != nil {
			return err
		}
		all[o.Name] = s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		close(r.listed)
	}
	r.all = all
	return nil
}

func (*receivedObjects) Resync() error { return nil }

func receivedObject(object any) (*v1alpha1.ReceivedService, storedService, error) {
	o, ok := object.(*v1alpha1.ReceivedService)
	if !ok {
		return nil, storedService{}, fmt.Errorf("a %T among the ReceivedServices", object)
	}
	s, err := storedServiceOf(o)
	return o, s, err
}
