package offload_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/test/kube"
)

// stream runs a pod with a twin, to which its provider has added a container, and makes the API
// server of the consumer known to the kubelet port. It returns the consumer's client certificate, and
// the requests that the provider's kubelet gets.
//
//strait:virtualtime
func (j *joined) stream(t *testing.T) (as tls.Certificate, asked chan *http.Request) {
	t.Helper()
	ca, err := kube.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	c, key, err := ca.Client("apiserver")
	if err != nil {
		t.Fatal(err)
	}
	if as, err = tls.X509KeyPair(c, key); err != nil {
		t.Fatal(err)
	}
	j.a.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"}, Data: map[string]string{"client-ca-file": string(ca.Certificate())}})
	j.a.Handle("/apis/authorization.k8s.io/v1/subjectaccessreviews", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"apiVersion":"`+authorizationv1.SchemeGroupVersion.String()+`","kind":"SubjectAccessReview","status":{"allowed":true}}`)
	}))
	asked = make(chan *http.Request, 10)
	j.streams = func(r *http.Request) (*http.Response, error) {
		asked <- r
		if r.Header.Get("Upgrade") == "" {
			near, far := net.Pipe()
			go fmt.Fprint(far, "line\n")
			context.AfterFunc(r.Context(), func() { near.Close() })
			return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Body: near, Request: r}, nil
		}
		near, far := net.Pipe()
		go io.Copy(far, far)
		return &http.Response{StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Body: near, Request: r,
			Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {r.Header.Get("Upgrade")}}}, nil
	}
	j.set("1")
	j.runPod(t)
	time.Sleep(time.Minute)
	twin, err := j.b.Client(t).Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	twin.Spec.Containers = append(twin.Spec.Containers, corev1.Container{Name: "sidecar", Image: "provider"})
	twin.Status.Phase = corev1.PodRunning
	j.b.Add(twin)
	time.Sleep(time.Minute)
	return as, asked
}

// stolen returns the certificate of the borrower.
func (j *joined) stolen(t *testing.T) tls.Certificate {
	t.Helper()
	secret, err := j.a.Client(t).Secrets("strait-offload").Get(t.Context(), borrower.Name("b"), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	as, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	return as
}

// connect sends a request through a cable, and returns the answer, the connection and its reader.
func connect(t *testing.T, through *cable, as tls.Certificate, request string) (*http.Response, net.Conn, *bufio.Reader) {
	t.Helper()
	plain, err := through.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{as}})
	t.Cleanup(func() { plain.Close() })
	fmt.Fprintf(conn, "%s\r\nHost: h\r\n\r\n", strings.ReplaceAll(request, "\n", "\r\n"))
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return answer, conn, in
}

const askSPDY = "\nConnection: Upgrade\nUpgrade: SPDY/3.1\nAuthorization: Bearer stolen\nImpersonate-User: admin"

func TestTheStreamsOfAPodAreThoseOfItsTwin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		as, asked := j.stream(t)
		for request, want := range map[string]string{
			"GET /containerLogs/shop/web/c?tailLines=5&follow=true HTTP/1.1\nAuthorization: Bearer stolen": "GET /api/v1/namespaces/shop/pods/web/log?container=c&follow=true&tailLines=5",
			"POST /exec/shop/web/c?command=ls&output=1 HTTP/1.1" + askSPDY:                                 "POST /api/v1/namespaces/shop/pods/web/exec?command=ls&container=c&stdout=1",
			"GET /attach/shop/web/c?input=1 HTTP/1.1" + askSPDY:                                            "GET /api/v1/namespaces/shop/pods/web/attach?container=c&stdin=1",
			"POST /portForward/shop/web?port=80 HTTP/1.1" + askSPDY:                                        "POST /api/v1/namespaces/shop/pods/web/portforward?ports=80",
		} {
			answer, conn, in := connect(t, j.kubelet, as, request)
			if answer.StatusCode == http.StatusSwitchingProtocols {
				fmt.Fprint(conn, "line\n")
			} else {
				in = bufio.NewReader(answer.Body)
			}
			line, err := in.ReadString('\n')
			r := <-asked
			if got := r.Method + " " + r.URL.RequestURI(); err != nil || line != "line\n" || got != want {
				t.Errorf("%s: %s, %q, %v, by %s, want %s", request, answer.Status, line, err, got, want)
			}
			if r.Header.Get("Authorization") != "Bearer lender" || r.Header.Get("Impersonate-User") != "" {
				t.Errorf("%s: the provider's API server gets the header %v", request, r.Header)
			}
		}
	})
}

// The borrower may be in the hands of an attacker: what it may ask for is decided by the lender.
func TestALenderPassesOnlyStreamsOfItsOwnPods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		_, asked := j.stream(t)
		labels := func(peering, uid string) map[string]string {
			return map[string]string{"strait.dev/peering": peering, "strait.dev/origin-uid": uid}
		}
		template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		j.b.Add(
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "provider", UID: "u-provider"}, Spec: template.Spec},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other", Labels: labels("other", "u-other")}, Spec: template.Spec},
			&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other", Labels: labels("other", "u-other")}, Template: template},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "labelled", Labels: labels("a", "u-labelled")}, Spec: template.Spec},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "former", Labels: labels("a", "u-former")}, Spec: template.Spec},
			&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "former", Labels: labels("a", "u-next")}, Template: template},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "outside", Labels: labels("a", "u-outside")}, Spec: template.Spec},
			&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "outside", Labels: labels("a", "u-outside")}, Template: template},
		)
		synctest.Wait()
		as := j.stolen(t)
		try := func(request string, want int) {
			t.Helper()
			answer, conn, _ := connect(t, j.cable, as, request)
			defer conn.Close()
			if answer.StatusCode != want {
				t.Errorf("%s: %s, want %d", request, answer.Status, want)
			}
			select {
			case r := <-asked:
				if want >= 300 {
					t.Errorf("%s: the provider's API server is asked for %s", request, r.URL)
				}
			default:
				if want < 300 {
					t.Errorf("%s: the provider's API server is not asked", request)
				}
			}
		}
		try("GET /v1/pods/u-1/log?container=c HTTP/1.1", 200)
		for _, uid := range []string{"u-provider", "u-other", "u-labelled", "u-former", "u-next", "u-outside", "none", "..%2Fu-1", "u-1%2F..%2F..%2Fshop"} {
			try("GET /v1/pods/"+uid+"/log?container=c HTTP/1.1", 404)
			try("POST /v1/pods/"+uid+"/exec?container=c&command=ls HTTP/1.1"+askSPDY, 404)
			try("POST /v1/pods/"+uid+"/portforward HTTP/1.1"+askSPDY, 404)
		}
		for _, query := range []string{"", "?container=sidecar", "?container=c%2Fsidecar", "?Container=c"} {
			try("GET /v1/pods/u-1/log"+query+" HTTP/1.1", 404)
			try("POST /v1/pods/u-1/exec"+query+" HTTP/1.1"+askSPDY, 404)
		}
		for request, want := range map[string]int{
			"GET /v1/pods/u-1/proxy HTTP/1.1": 404, "GET /v1/pods/u-1/log/x?container=c HTTP/1.1": 404, "POST /v1/pods/u-1/log?container=c HTTP/1.1": 405,
			"PUT /v1/pods/u-1/exec?container=c HTTP/1.1" + askSPDY: 405, "POST /v1/pods/u-1/exec?container=c HTTP/1.1": 400,
			"GET /v1/pods/u-1/../../../api/v1/secrets HTTP/1.1": 307,
		} {
			try(request, want)
		}
		p, err := j.b.Client(t).Peerings().Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Spec.Lend.Namespaces = nil
		j.b.Add(p)
		synctest.Wait()
		try("GET /v1/pods/u-1/log?container=c HTTP/1.1", 404)
	})
}

// Each stream costs the provider's API server a request, however short it is.
func TestABorrowerThatOpensStreamsWithoutEndIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		j.stream(t)
		asked := 0
		j.streams = func(r *http.Request) (*http.Response, error) {
			asked++
			return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody, Request: r}, nil
		}
		const request = "GET /v1/pods/u-1/log?container=c HTTP/1.1"
		_, conn, in := connect(t, j.cable, j.stolen(t), request)
		flood := func() int {
			for asked = 0; ; {
				fmt.Fprintf(conn, "%s\r\nHost: h\r\n\r\n", request)
				answer, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(answer.Body)
				switch {
				case err != nil:
					t.Fatal(err)
				case answer.StatusCode == http.StatusTooManyRequests && strings.Contains(string(text), "ask again later"):
					return asked
				case answer.StatusCode != http.StatusOK:
					t.Fatalf("after %d: %s", asked, answer.Status)
				}
			}
		}
		if n := flood(); n < 3*protocol.MaxPods || n > 4*protocol.MaxPods {
			t.Errorf("%d streams at once", n)
		}
		time.Sleep(time.Minute)
		if n := flood(); n < 1000 || n > 1200 {
			t.Errorf("%d streams in the minute after that", n)
		}
	})
}

// A link that is silent leaves no streams, even if no connection ends.
func TestStreamsEndWhenTheLinkIsSilent(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(j *joined){
		"the link is cut":                       func(j *joined) { j.cable.set(true) },
		"the provider's API server is unusable": func(j *joined) { j.b.Pause() },
		"the borrower stops":                    func(j *joined) { j.stopBorrower() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				j := join(t)
				as, asked := j.stream(t)
				_, _, log := connect(t, j.kubelet, as, "GET /containerLogs/shop/web/c?follow=true HTTP/1.1")
				_, _, exec := connect(t, j.kubelet, as, "POST /exec/shop/web/c?command=sh&input=1 HTTP/1.1"+askSPDY)
				ended := make(chan time.Time, 2)
				for _, in := range []*bufio.Reader{log, exec} {
					go func() {
						_, _ = io.Copy(io.Discard, in)
						ended <- time.Now()
					}()
				}
				time.Sleep(10 * time.Minute)
				if len(ended) > 0 {
					t.Fatal("a stream ends although everything works")
				}
				fail(j)
				failed := time.Now()
				time.Sleep(time.Minute)
				if len(ended) < 2 {
					t.Fatalf("of two streams, %d have ended", len(ended))
				}
				for range 2 {
					if after := (<-ended).Sub(failed); after > protocol.Silence+protocol.HeartbeatInterval {
						t.Errorf("a stream ended after %v", after)
					}
				}
				if r := <-asked; r.Context().Err() == nil {
					t.Error("the log goes on at the provider's API server")
				}
			})
		})
	}
}

// A hostile borrower would fill the memory of the lender with requests that it sends slowly, so that
// the lender restarts, with a new budget.
func TestFewRequestsAreInMemoryAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		as := j.stolen(t)
		codes := make(chan int, 50)
		for range cap(codes) {
			go func() {
				answer, _, _ := connect(t, j.cable, as, "PUT "+protocol.DesiredPath+" HTTP/1.1\nContent-Length: 1000000")
				codes <- answer.StatusCode
			}()
		}
		time.Sleep(5 * time.Second)
		if n := len(codes); n != cap(codes)-4 {
			t.Errorf("of %d requests whose bodies do not arrive, %d are answered", cap(codes), n)
		}
		time.Sleep(time.Minute) // also until the server has closed the connections
		answered := make(map[int]int)
		for range cap(codes) {
			answered[<-codes]++
		}
		if answered[http.StatusServiceUnavailable] != cap(codes)-4 || answered[http.StatusBadRequest] != 4 {
			t.Errorf("the answers are %v", answered)
		}
	})
}
