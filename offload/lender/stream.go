package lender

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// streamPatience is how long the API server may take to begin a stream: less than the borrower waits.
const streamPatience = 20 * time.Second

func (l *lender) stream(stream string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		session := l.board.current()
		if session == nil {
			answer(w, http.StatusServiceUnavailable, errors.New("the borrower reads no status"))
			return
		}
		record := l.recordOf(r.PathValue("uid"))
		if record == nil {
			answer(w, http.StatusNotFound, errors.New("the pod does not run in the other cluster now"))
			return
		}
		query := protocol.Parameters(stream, r.URL.Query())
		if stream != protocol.PortForward {
			// Not one that the provider has added, which may have credentials of the provider.
			if container := query.Get("container"); !translate.HasContainer(&record.Template.Spec, container) {
				answer(w, http.StatusNotFound, fmt.Errorf("the pod has no container %q", container))
				return
			}
		}
		if err := l.spend(); err != nil {
			answer(w, http.StatusTooManyRequests, err)
			return
		}
		to := l.Client.PodURL(record.Namespace, record.Name, stream)
		to.RawQuery = query.Encode()
		l.streams.Serve(session, w, r, stream, to)
	}
}

// recordOf returns the record of a pod of the consumer that has a twin in a namespace that is lent;
// nil: there is none.
func (l *lender) recordOf(uid string) *corev1.PodTemplate {
	p, ok := l.peerings.Get(l.Peering)
	if !ok || p.Spec.Lend == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, namespace := range p.Spec.Lend.Namespaces {
		s := l.spaces[namespace]
		if s == nil {
			continue
		}
		for _, record := range s.records.List() {
			if record.Labels[translate.OriginLabel] != uid {
				continue
			}
			twin, ok := s.twins.Get(namespace + "/" + record.Name)
			if ok && twin.Labels[translate.OriginLabel] == uid {
				return record
			}
		}
	}
	return nil
}
