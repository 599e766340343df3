package fakekube

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/client"
)

// Server is an in-memory API server. Safe for concurrent use.
type Server struct {
	mu       sync.Mutex
	store    store
	changed  chan struct{}           // closed to wake watches and paused requests
	breaks   int                     // how often all watches were broken
	down     bool                    // connections are refused
	paused   bool                    // requests wait
	handlers map[string]http.Handler // by path
	faults   []func(Request) error
	late     func(Request)
	user     authenticationv1.UserInfo // of Config
}

// New returns a server with the namespaces of every cluster, the definitions of the custom
// resources of Strait and of the Multi-Cluster Services API, and these objects. They keep
// their status, UID and creation time. Missing namespaces are created. It panics if an
// object has an unknown type.
func New(objects ...runtime.Object) *Server {
	s := &Server{
		store:    newStore(),
		changed:  make(chan struct{}),
		handlers: map[string]http.Handler{"/version": versionHandler},
		user:     authenticationv1.UserInfo{Username: "admin", Groups: []string{"system:masters", "system:authenticated"}},
	}
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		s.store.namespace(name)
	}
	s.InstallCRDs()
	s.Add(objects...)
	return s
}

// Add stores objects like New. Existing objects are replaced.
func (s *Server) Add(objects ...runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, object := range objects {
		if err := s.store.add(object); err != nil {
			panic(fmt.Sprintf("fakekube: %v", err))
		}
	}
	s.wake()
}

// Config returns the configuration of a client with all permissions. Each call returns a
// new copy. The client has no request limit.
func (s *Server) Config() *rest.Config {
	return s.config(func(Request) error { return nil }, s.user)
}

// Client returns a client with all permissions.
func (s *Server) Client(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.New(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Kubernetes returns a client of the resources that every cluster has.
func (s *Server) Kubernetes() kubernetes.Interface { return kubernetes.NewForConfigOrDie(s.Config()) }

// config returns a configuration whose requests are made by user, and rejected if allow
// returns an error.
func (s *Server) config(allow func(Request) error, user authenticationv1.UserInfo) *rest.Config {
	return &rest.Config{
		Host: "http://127.0.0.1:1", // no process listens there, in case a client connects directly
		QPS:  -1,
		Transport: client.RoundTripper(func(r *http.Request) (*http.Response, error) {
			return s.roundTrip(r, allow, user)
		}),
	}
}

// Handle answers all requests for a path, like /api/v1/namespaces/a/pods/b/log, by a
// handler. It takes precedence over the server's own response.
func (s *Server) Handle(path string, handler http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[path] = handler
}

var versionHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	fmt.Fprint(w, `{"major":"1","minor":"37","gitVersion":"v1.37.2","platform":"linux/amd64"}`)
})

func (s *Server) roundTrip(r *http.Request, allow func(Request) error, user authenticationv1.UserInfo) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	if err := s.reach(r.Context()); err != nil {
		return nil, err
	}
	request := parse(r, body)
	request.user, request.allow = user, allow
	if err := s.fault(request); err != nil {
		if status, is := err.(apierrors.APIStatus); is {
			return failure(r, status), nil
		}
		return nil, err
	}
	if err := allow(request); err != nil {
		return failure(r, err.(apierrors.APIStatus)), nil
	}
	s.mu.Lock()
	handler, late := s.handlers[request.Path], s.late
	s.mu.Unlock()
	if handler != nil {
		answer := httptest.NewRecorder()
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(answer, r)
		response := answer.Result()
		response.Request = r
		return response, nil
	}
	s.mu.Lock()
	response, err := s.answer(r, request)
	s.mu.Unlock()
	if late != nil {
		late(request)
	}
	if err != nil {
		status, is := err.(apierrors.APIStatus)
		if !is {
			status = apierrors.NewInternalError(err)
		}
		return failure(r, status), nil
	}
	return response, nil
}

// reach waits until the server answers requests, and returns an error if it does not.
func (s *Server) reach(ctx context.Context) error {
	for {
		s.mu.Lock()
		down, paused, changed := s.down, s.paused, s.changed
		s.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case down:
			return errRefused
		case !paused:
			return nil
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// wake wakes watches and paused requests. The caller holds the lock.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// answer performs a request. The caller holds the lock.
func (s *Server) answer(r *http.Request, q Request) (*http.Response, error) {
	switch {
	case q.Resource == "":
		switch q.Path {
		case "/healthz", "/livez", "/readyz":
			return respond(r, http.StatusOK, "text/plain", []byte("ok")), nil
		}
		return notFound(r), nil
	case q.Resource == "selfsubjectreviews":
		return s.reviewSelf(r, q)
	}
	kind := s.store.resource(q)
	if kind == nil || q.Version != kind.version || (q.Namespace != "") && !kind.namespaced {
		return notFound(r), nil
	}
	if q.Subresource != "" && (q.Subresource != "status" || !kind.status) {
		return notFound(r), nil
	}
	before := s.store.version
	defer func() {
		if s.store.version != before {
			s.wake()
		}
	}()
	if isDryRun(q) {
		stored := s.store
		s.store = stored.clone()
		defer func() { s.store = stored }()
	}
	switch q.Verb {
	case "get":
		object, err := s.store.get(kind, q.Namespace, q.Name)
		if err != nil {
			return nil, err
		}
		return respondObject(r, http.StatusOK, kind, object)
	case "list":
		list, err := s.store.list(kind, q)
		if err != nil {
			return nil, err
		}
		return respondList(r, kind, list)
	case "watch":
		return s.watch(r, kind, q)
	case "create", "update", "patch":
		existed := q.Name != "" && s.store.objects[kind.key()][key{q.Namespace, q.Name}] != nil
		object, err := s.store.write(kind, q)
		if err != nil {
			return nil, err
		}
		status := http.StatusOK
		if !existed {
			status = http.StatusCreated
		}
		return respondObject(r, status, kind, object)
	case "delete":
		if err := s.store.delete(kind, q); err != nil {
			return nil, err
		}
		return respondSuccess(r), nil
	case "deletecollection":
		if err := s.store.deleteCollection(kind, q); err != nil {
			return nil, err
		}
		return respondSuccess(r), nil
	}
	return nil, apierrors.NewMethodNotSupported(gr(q), strings.ToLower(r.Method))
}
