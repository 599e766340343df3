package fakekube

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"sort"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is the response body of a watch: a position in the server's changes.
type watcher struct {
	server   *Server
	ctx      context.Context
	resource *resource
	selects  func(*object) bool
	protobuf bool
	expires  <-chan time.Time // nil: never

	closed    chan struct{}
	closeOnce sync.Once

	version uint64 // of the last change that was sent
	breaks  int    // of the server, at the start
	out     bytes.Buffer
}

// watch starts a watch. The caller holds the lock.
func (s *Server) watch(r *http.Request, kind *resource, q Request) (*http.Response, error) {
	selects, err := selection(kind, q)
	if err != nil {
		return nil, err
	}
	if q.query.Get("sendInitialEvents") != "" {
		return nil, apierrors.NewInvalid(kind.gvk().GroupKind(), "", nil) // clients fall back to a list
	}
	from, err := s.store.asked(q)
	if err != nil || from > s.store.version {
		return nil, cmpError(err, tooLarge(from, s.store.version))
	}
	w := &watcher{server: s, ctx: r.Context(), resource: kind, selects: selects, closed: make(chan struct{}), version: from, breaks: s.breaks}
	w.protobuf = isProtobuf(r.Header.Get("Accept")) && !kind.custom() && kind != definitionResource
	if seconds, _ := strconv.Atoi(q.query.Get("timeoutSeconds")); seconds > 0 {
		w.expires = time.After(time.Duration(seconds) * time.Second)
	}
	if from == 0 { // start with the objects that exist now
		w.version = s.store.version
		now, err := s.store.list(kind, Request{Namespace: q.Namespace})
		if err != nil {
			return nil, err
		}
		for _, o := range now.objects {
			if selects(o) {
				w.send(watch.Added, o)
			}
		}
	}
	contentType := typeJSON
	if w.protobuf {
		contentType = typeProtobuf + ";stream=watch"
	}
	return stream(r, http.StatusOK, contentType, w), nil
}

// Read implements io.Reader.
func (w *watcher) Read(p []byte) (int, error) {
	for {
		changed, err := w.look()
		if w.out.Len() > 0 {
			return w.out.Read(p)
		}
		if err != nil {
			return 0, err
		}
		select {
		case <-changed:
		case <-w.expires:
			return 0, io.EOF
		case <-w.closed:
			return 0, http.ErrBodyReadAfterClose
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		}
	}
}

// Close implements io.Closer.
func (w *watcher) Close() error {
	w.closeOnce.Do(func() { close(w.closed) })
	return nil
}

// look sends the new changes, and returns a channel that announces the next ones.
func (w *watcher) look() (changed <-chan struct{}, err error) {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.breaks != s.breaks:
		return nil, io.ErrUnexpectedEOF
	case s.paused:
		return s.changed, nil
	case w.version < s.store.compacted:
		status := apierrors.NewResourceExpired("too old resource version").ErrStatus
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
		must(err)
		if w.version != s.store.version { // once
			w.send(watch.Error, &object{Object: content})
		}
		w.version = s.store.version
		return nil, io.EOF
	}
	all := s.store.changes
	for _, c := range all[sort.Search(len(all), func(i int) bool { return all[i].version > w.version }):] {
		w.version = c.version
		if c.resource.key() != w.resource.key() {
			continue
		}
		before, after := c.old != nil && w.selects(c.old), c.new != nil && w.selects(c.new)
		switch {
		case before && after:
			w.send(watch.Modified, c.new)
		case after:
			w.send(watch.Added, c.new)
		case before && c.new != nil: // it is no longer selected
			gone := c.old.DeepCopy()
			gone.SetResourceVersion(c.new.GetResourceVersion())
			w.send(watch.Deleted, gone)
		case before:
			w.send(watch.Deleted, c.last)
		}
	}
	return s.changed, nil
}

// send writes an event.
func (w *watcher) send(event watch.EventType, o *object) {
	accept := typeJSON
	if w.protobuf {
		accept = typeProtobuf
	}
	_, text, err := encode(accept, o.GroupVersionKind(), o.Object)
	must(err)
	whole := metav1.WatchEvent{Type: string(event), Object: runtime.RawExtension{Raw: text}}
	if !w.protobuf {
		must(json.NewEncoder(&w.out).Encode(whole))
		return
	}
	frame, err := whole.Marshal()
	must(err)
	must(binary.Write(&w.out, binary.BigEndian, uint32(len(frame))))
	w.out.Write(frame)
}
