package borrower

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/identity"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/streams"
	"strait.dev/strait/offload/translate"
	"strait.dev/strait/test/fakekube"
	"strait.dev/strait/test/kube"
)

func TestAPathIsExactlyThatOfAStream(t *testing.T) {
	t.Parallel()
	web := target{namespace: "shop", pod: "web-0", container: "web"}
	of := func(stream string) target { to := web; to.stream = stream; return to }
	for path, want := range map[string]target{
		"/healthz":                       {health: true},
		"/containerLogs/shop/web-0/web":  of(protocol.Log),
		"/exec/shop/web-0/web":           of(protocol.Exec),
		"/attach/shop/web-0/web":         of(protocol.Attach),
		"/portForward/shop/web-0":        {stream: protocol.PortForward, namespace: "shop", pod: "web-0"},
		"":                               {},
		"/":                              {},
		"/healthz/":                      {},
		"/pods":                          {},
		"/run/shop/web-0/web":            {},
		"/logs/":                         {},
		"/exec":                          {},
		"/exec/shop/web-0":               {},
		"/exec/shop/web-0/":              {},
		"/exec/shop//web":                {},
		"/exec//web-0/web":               {},
		"//exec/shop/web-0/web":          {},
		"/exec/shop/web-0/web/":          {},
		"/exec/shop/web-0/web/more":      {},
		"/exec/shop/u-1/web-0/web":       {},
		"/exec/../web-0/web":             {},
		"/exec/shop/./web":               {},
		"/exec/shop/web-0/..":            {},
		"/exec/shop%2Fweb-0/x/web":       {},
		"/exec/shop/web%2d0/web":         {},
		"/exec/shop/%2e%2e/web":          {},
		"/exec%2Fshop/web-0/web":         {},
		"/portForward/shop/web-0/web":    {},
		"/portForward/shop":              {},
		"/containerlogs/shop/web-0/web":  {},
		"/containerLogs/shop/web-0/%00b": {},
	} {
		u, err := url.ParseRequestURI("https://node" + path)
		if path == "" {
			u, err = &url.URL{}, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := parse(u); got != want || ok != (want != target{}) {
			t.Errorf("%s asks for %+v, %v, want %+v", path, got, ok, want)
		}
	}
}

func TestAQueryOfTheKubeletIsThatOfTheAPI(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ stream, kubelet, want string }{
		{protocol.Log, "follow=true&previous=true&tailLines=5&timestamps=true&sinceSeconds=9&sinceTime=2026-03-01T12:00:00Z&limitBytes=7&stream=All",
			"container=web&follow=true&limitBytes=7&previous=true&sinceSeconds=9&sinceTime=2026-03-01T12%3A00%3A00Z&stream=All&tailLines=5&timestamps=true"},
		{protocol.Log, "insecureSkipTLSVerifyBackend=true&container=other&command=ls&pretty=1&follow=true&follow=false", "container=web&follow=true"},
		{protocol.Exec, "command=sh&command=-c&command=echo+%26container%3Dother&input=1&output=1&error=1&tty=1", "command=sh&command=-c&command=echo+%26container%3Dother&container=web&stderr=1&stdin=1&stdout=1&tty=1"},
		{protocol.Exec, "command=ls&stdin=1&container=other&follow=true", "command=ls&container=web"},
		{protocol.Attach, "output=1&command=ls", "container=web&stdout=1"},
		{protocol.PortForward, "port=80,443&container=other&command=ls", "ports=80&ports=443"},
		{protocol.PortForward, "", ""},
	} {
		q, err := url.ParseQuery(c.kubelet)
		if err != nil {
			t.Fatal(err)
		}
		to := target{stream: c.stream, namespace: "shop", pod: "web-0", container: "web"}
		if c.stream == protocol.PortForward {
			to.container = ""
		}
		if got := query(to, q).Encode(); got != c.want {
			t.Errorf("%s of %s is %s, want %s", c.stream, c.kubelet, got, c.want)
		}
	}
}

// port is a kubelet port on loopback, in front of an API server that knows one token and the rights
// of users, and of a lender.
type port struct {
	url   string
	ca    *kube.Authority
	api   *fakekube.Server
	asked chan *http.Request // by the lender
}

// rights of users on nodes/proxy.
var rights = map[string]string{"apiserver": "get create", "reader": "get"}

func newPort(t *testing.T) *port {
	t.Helper()
	ca, err := kube.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	pod := func(namespace, name, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u-1"}, Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "web"}}, InitContainers: []corev1.Container{{Name: "init"}}}}
	}
	p := &port{ca: ca, asked: make(chan *http.Request, 1), api: fakekube.New(pod("shop", "web-0", "strait-b"), pod("shop", "near", "node-1"),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: authoritySpace, Name: authorityName}, Data: map[string]string{authorityKey: string(ca.Certificate())}})}
	p.reviews(t)
	own := p.api.Client(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.url = "https://" + listener.Addr().String()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	b := &borrower{Options: Options{Peering: "b", Listener: listener}, log: log, node: translate.Node{Name: "strait-b"}, pods: own.Pods("").CacheOfNode("strait-b"), link: &link{session: t.Context()}}
	b.streams = streams.New(streams.Options{Next: "the other cluster", Wait: streamPatience, Answer: answer, Log: log, Transport: client.RoundTripper(func(r *http.Request) (*http.Response, error) {
		p.asked <- r
		return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(strings.NewReader("line\n")), Request: r}, nil
	})})
	if b.serving, err = identity.Generate("strait-b"); err != nil {
		t.Fatal(err)
	}
	if b.callers, err = newCallers(own, p.api.Config(), "strait-b"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	server, ended := b.kubelet(), make(chan struct{}, 3)
	go func() { b.pods.RunWithContext(ctx); ended <- struct{}{} }()
	go func() { b.callers.authorities.RunWithContext(ctx); ended <- struct{}{} }()
	go func() {
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		ended <- struct{}{}
	}()
	t.Cleanup(func() { stop(); server.Close(); <-ended; <-ended; <-ended })
	if !cache.WaitForCacheSync(ctx.Done(), b.pods.HasSynced, b.callers.authorities.HasSynced) {
		t.Fatal("no first list")
	}
	return p
}

// reviews makes the API server answer about tokens and rights.
func (p *port) reviews(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{authenticationv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	codec := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	handle := func(path string, review func(runtime.Object)) {
		p.api.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			object, kind, err := codec.Decode(text, nil, nil)
			if err != nil {
				t.Error(err)
				return
			}
			review(object)
			object.GetObjectKind().SetGroupVersionKind(*kind)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(object)
		}))
	}
	handle("/apis/authentication.k8s.io/v1/tokenreviews", func(o runtime.Object) {
		review := o.(*authenticationv1.TokenReview)
		name, ok := strings.CutPrefix(review.Spec.Token, "of-")
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: authenticationv1.UserInfo{Username: name, Groups: []string{"system:authenticated"}}}
	})
	handle("/apis/authorization.k8s.io/v1/subjectaccessreviews", func(o runtime.Object) {
		review := o.(*authorizationv1.SubjectAccessReview)
		of := review.Spec.ResourceAttributes
		review.Status.Allowed = of.Resource == "nodes" && of.Subresource == "proxy" && of.Name == "strait-b" && strings.Contains(rights[review.Spec.User], of.Verb)
	})
}

// certificate returns a client certificate of a user.
func certificate(t *testing.T, of *kube.Authority, user string) *tls.Certificate {
	t.Helper()
	c, key, err := of.Client(user, "some")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(c, key)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// do sends a request, and returns the status and the text of the answer.
func (p *port) do(t *testing.T, method, path string, as *tls.Certificate, header http.Header) (int, string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true}
	defer transport.CloseIdleConnections()
	if as != nil {
		transport.TLSClientConfig.Certificates = []tls.Certificate{*as}
	}
	r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(r.Header, header)
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(text)
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func TestOnlyAuthorizedClientsAreServed(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	foreign, err := kube.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	server, key, err := p.ca.Server("apiserver", net.IPv4(127, 0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	serving, err := tls.X509KeyPair(server, key)
	if err != nil {
		t.Fatal(err)
	}
	const logs = "/containerLogs/shop/web-0/web?tailLines=5"
	upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}}
	for name, c := range map[string]struct {
		method, path string
		as           *tls.Certificate
		header       http.Header
		want         int
	}{
		"a certificate with the right":            {"GET", logs, certificate(t, p.ca, "apiserver"), nil, 200},
		"a token with the right":                  {"GET", logs, nil, bearer("of-apiserver"), 200},
		"a token with the right to read":          {"GET", logs, nil, bearer("of-reader"), 200},
		"an unknown certificate, a token":         {"GET", logs, certificate(t, foreign, "apiserver"), bearer("of-apiserver"), 200},
		"the health":                              {"GET", "/healthz", nil, bearer("of-reader"), 200},
		"no certificate":                          {"GET", logs, nil, nil, 401},
		"no certificate, the health":              {"GET", "/healthz", nil, nil, 401},
		"no certificate, no path":                 {"GET", "/none", nil, nil, 401},
		"a certificate of another authority":      {"GET", logs, certificate(t, foreign, "apiserver"), nil, 401},
		"a certificate without a name":            {"GET", logs, certificate(t, p.ca, ""), nil, 401},
		"a certificate of a server":               {"GET", logs, &serving, nil, 401},
		"a certificate without the right":         {"GET", logs, certificate(t, p.ca, "kubelet"), nil, 403},
		"a token without the right":               {"GET", logs, nil, bearer("of-pod"), 403},
		"a token without the right, no path":      {"GET", "/none", nil, bearer("of-pod"), 403},
		"a token that is not valid":               {"GET", logs, nil, bearer("none"), 401},
		"an empty token":                          {"GET", logs, nil, bearer(""), 401},
		"a password":                              {"GET", logs, nil, http.Header{"Authorization": {"Basic of-apiserver"}}, 401},
		"headers of an authenticating proxy":      {"GET", logs, nil, http.Header{"X-Remote-User": {"apiserver"}, "Impersonate-User": {"apiserver"}}, 401},
		"exec by the right to read":               {"GET", "/exec/shop/web-0/web?command=ls", nil, http.Header{"Authorization": {"Bearer of-reader"}, "Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}}, 403},
		"port-forward by the right to read":       {"GET", "/portForward/shop/web-0", nil, bearer("of-reader"), 403},
		"a path that is none":                     {"GET", "/pods", certificate(t, p.ca, "apiserver"), nil, 404},
		"another method":                          {"DELETE", logs, certificate(t, p.ca, "apiserver"), nil, 405},
		"a log by POST":                           {"POST", logs, certificate(t, p.ca, "apiserver"), nil, 405},
		"an unknown pod":                          {"GET", "/containerLogs/shop/none/web", certificate(t, p.ca, "apiserver"), nil, 404},
		"a pod of another node":                   {"GET", "/containerLogs/shop/near/web", certificate(t, p.ca, "apiserver"), nil, 404},
		"a pod of another namespace":              {"GET", "/containerLogs/default/web-0/web", certificate(t, p.ca, "apiserver"), nil, 404},
		"an unknown container":                    {"GET", "/containerLogs/shop/web-0/sidecar", certificate(t, p.ca, "apiserver"), nil, 404},
		"an exec that the lender does not answer": {"POST", "/exec/shop/web-0/init?command=ls", certificate(t, p.ca, "apiserver"), upgrade, 502},
		"an exec without an upgrade":              {"POST", "/exec/shop/web-0/web?command=ls", certificate(t, p.ca, "apiserver"), nil, 400},
		"a header of more than the limit":         {"GET", logs + strings.Repeat("x", 2*protocol.MaxRequest), certificate(t, p.ca, "apiserver"), nil, 431},
	} {
		code, text := p.do(t, c.method, c.path, c.as, c.header)
		if code != c.want || text == "" {
			t.Errorf("%s: %d, %q, want %d", name, code, text, c.want)
		}
		var asked *http.Request
		select {
		case asked = <-p.asked:
		default:
		}
		if reaches := c.want == 200 && c.path == logs || c.want == 502; reaches != (asked != nil) {
			t.Errorf("%s: the lender is asked for %v", name, asked)
		}
		if asked != nil && (asked.URL.Path != "/v1/pods/u-1/log" && asked.URL.Path != "/v1/pods/u-1/exec" || asked.Header.Get("Authorization") != "") {
			t.Errorf("%s: the lender is asked for %s, with the header %v", name, asked.URL, asked.Header)
		}
	}
}

// A key of the cluster's authority can be replaced, and no client is admitted while the API server
// does not answer.
func TestTheAPIServerDecidesOnEachRequest(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	get := func(as *tls.Certificate, header http.Header) int {
		code, _ := p.do(t, "GET", "/healthz", as, header)
		return code
	}
	next, err := kube.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	was, is := certificate(t, p.ca, "apiserver"), certificate(t, next, "apiserver")
	p.api.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: authoritySpace, Name: authorityName}, Data: map[string]string{authorityKey: string(next.Certificate())}})
	kube.Until(t, "the new authority counts", func() string {
		if code := get(is, nil); code != 200 {
			return http.StatusText(code)
		}
		return ""
	})
	if code := get(was, nil); code != 401 {
		t.Errorf("a certificate of the former authority is answered with %d", code)
	}
	p.api.Stop()
	if code := get(is, nil); code != 503 {
		t.Errorf("without the API server a certificate is answered with %d", code)
	}
	if code := get(nil, bearer("of-apiserver")); code != 503 {
		t.Errorf("without the API server a token is answered with %d", code)
	}
}
