package gateway

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

// exportedServices passes the ExportedServices of this cluster to the control channel. It
// keeps no objects: an export has them in the form in which they are sent. It implements
// cache.ReflectorStore.
type exportedServices struct {
	exports *control.Exports
	metrics *metrics
	log     *slog.Logger
}

func (s *exportedServices) Add(object any) error { return s.Update(object) }

func (s *exportedServices) Update(object any) error {
	r, err := exportedRecord(object)
	if err != nil {
		return err
	}
	if err := s.exports.Put(r); err != nil {
		s.log.Warn("a Service is not exported to the remote cluster", "service", r.Key, "error", err)
	}
	s.metrics.exported.Set(float64(s.exports.Len()))
	return nil
}

func (s *exportedServices) Delete(object any) error {
	e, ok := object.(*v1alpha1.ExportedService)
	if !ok {
		return fmt.Errorf("a %T among the ExportedServices", object)
	}
	s.exports.Remove(control.ServiceKey{Namespace: e.Spec.Namespace, Name: e.Spec.Name})
	s.metrics.exported.Set(float64(s.exports.Len()))
	return nil
}

func (s *exportedServices) Replace(objects []any, _ string) error {
	records := make([]control.ServiceRecord, 0, len(objects))
	for i, object := range objects {
		r, err := exportedRecord(object)
		if err != nil {
			return err
		}
		records = append(records, r)
		objects[i] = nil // its memory is not needed any more
	}
	if err := s.exports.Replace(records); err != nil {
		s.log.Warn("some Services are not exported to the remote cluster", "error", client.Clip(err.Error(), maxText))
	}
	s.metrics.exported.Set(float64(s.exports.Len()))
	return nil
}

func (*exportedServices) Resync() error { return nil }

func exportedRecord(object any) (r control.ServiceRecord, err error) {
	e, ok := object.(*v1alpha1.ExportedService)
	if !ok {
		return r, fmt.Errorf("a %T among the ExportedServices", object)
	}
	r.Key = control.ServiceKey{Namespace: e.Spec.Namespace, Name: e.Spec.Name}
	r.JSON, err = json.Marshal(&e.Spec)
	return r, err
}
