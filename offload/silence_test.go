package offload_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/identity"
	"strait.dev/strait/offload/lender"
	"strait.dev/strait/offload/metrics"
	"strait.dev/strait/test/fakekube"
)

// cable is the path between the agents: a listener in memory that can be cut.
type cable struct {
	arriving chan net.Conn
	closed   chan struct{}
	close    func()

	mu    sync.Mutex
	cut   bool
	slow  bool // it carries slowRate bytes a second to the lender
	conns []net.Conn
}

const slowRate = 40 << 10

type slowConn struct {
	net.Conn
	of *cable
}

// Write is slow for what is large. The alert that ends a connection is not: the HTTP client sends it with a lock, and while another
// goroutine waits for that, virtual time stands still.
//
//strait:virtualtime
func (c slowConn) Write(b []byte) (int, error) {
	c.of.mu.Lock()
	slow := c.of.slow
	c.of.mu.Unlock()
	if slow && len(b) >= 1<<10 {
		time.Sleep(time.Duration(len(b)) * time.Second / slowRate)
	}
	return c.Conn.Write(b)
}

func newCable() *cable {
	c := &cable{arriving: make(chan net.Conn), closed: make(chan struct{})}
	c.close = sync.OnceFunc(func() { close(c.closed) })
	return c
}

func (c *cable) Accept() (net.Conn, error) {
	select {
	case conn := <-c.arriving:
		return conn, nil
	case <-c.closed:
		return nil, net.ErrClosed
	}
}

func (c *cable) Close() error { c.close(); return nil }

func (c *cable) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 2, 7), Port: 6097} }

// dial connects to the lender while the cable is not cut.
func (c *cable) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, errors.New("no route to host")
	}
	select {
	case c.arriving <- far:
		c.conns = append(c.conns, near, far)
		return slowConn{near, c}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// set cuts the cable, or joins it again. When it is cut, all connections end.
func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if cut {
		for _, conn := range c.conns {
			conn.Close()
		}
		c.conns = nil
	}
}

// joined is two clusters in memory, with both agents.
type joined struct {
	a, b         *fakekube.Server
	cable        *cable
	kubelet      *cable // to the kubelet port of the node
	stopBorrower func() // waits until it has ended
	// streams is the provider's kubelet, behind its API server; nil: there is none.
	streams func(*http.Request) (*http.Response, error)

	borrows  borrower.Stats
	lends    lender.Stats
	requests prometheus.Collector // of the borrower
}

// borrow starts a borrower.
func (j *joined) borrow(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	j.kubelet = newCable()
	var agent sync.WaitGroup
	api := j.a.Config()
	j.requests = metrics.Requests("b", api)
	agent.Go(func() {
		o := borrower.Options{API: api, Peering: "b", Namespace: "strait-offload", Addresses: []string{"10.0.1.9"}, Listener: j.kubelet, Dial: j.cable.dial, Log: slog.New(slog.DiscardHandler), Stats: &j.borrows}
		if err := borrower.Run(ctx, o); err != nil {
			t.Error(err)
		}
	})
	j.stopBorrower = func() { stop(); agent.Wait() }
	t.Cleanup(j.stopBorrower)
}

// lend starts a lender.
func (j *joined) lend(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	config := j.b.Config()
	through := config.Transport
	config.BearerToken = "lender"
	config.Transport = client.RoundTripper(func(r *http.Request) (*http.Response, error) {
		if parts := strings.Split(r.URL.Path, "/"); len(parts) == 8 && parts[5] == "pods" {
			return j.streams(r)
		}
		return through.RoundTrip(r)
	})
	own, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	var agent sync.WaitGroup
	agent.Go(func() {
		o := lender.Options{Client: own, Peering: "a", Namespace: "strait-offload", Listener: j.cable, Log: slog.New(slog.DiscardHandler), Stats: &j.lends}
		if err := lender.Run(ctx, o); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); agent.Wait() })
}

// join starts both agents, and waits for longer than the node needs to become ready.
//
//strait:virtualtime
func join(t *testing.T) *joined {
	j := &joined{
		a: fakekube.New(&v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strait-offload"}}),
		b: fakekube.New(&v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strait-offload"}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}),
		cable: newCable(),
	}
	j.lend(t)
	j.borrow(t)
	time.Sleep(5 * time.Second) // both have made their keys
	fingerprint := func(s *fakekube.Server, agent string) v1alpha1.Fingerprint {
		is, err := s.Client(t).Secrets("strait-offload").Get(t.Context(), agent, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return v1alpha1.Fingerprint(is.Annotations[identity.FingerprintAnnotation])
	}
	borrows, lends := fingerprint(j.a, borrower.Name("b")), fingerprint(j.b, lender.Name("a"))
	at := &v1alpha1.OffloadLender{Address: "10.70.1.9", Port: 6097, Fingerprint: lends}
	j.a.Add(&v1alpha1.Peering{
		ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{Borrow: &v1alpha1.PeeringBorrow{Fingerprint: borrows}},
		Status: v1alpha1.PeeringStatus{Announcement: &v1alpha1.Announcement{Offload: &v1alpha1.AnnouncedOffload{Lender: at}},
			ExternalPrefixes: []v1alpha1.SeenPrefix{{CIDR: "10.70.0.0/16", SeenAs: "10.72.0.0/16"}}},
	})
	j.b.Add(&v1alpha1.Peering{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.PeeringSpec{Prefixes: []v1alpha1.RemotePrefix{{CIDR: "10.0.0.0/16"}}, Lend: &v1alpha1.PeeringLend{Namespaces: []string{"shop"}, Lender: at}},
		Status: v1alpha1.PeeringStatus{
			Announcement: &v1alpha1.Announcement{Offload: &v1alpha1.AnnouncedOffload{Borrower: borrows}},
			Prefixes:     []v1alpha1.SeenPrefix{{CIDR: "10.0.0.0/16", SeenAs: "10.73.0.0/16"}, {CIDR: "10.9.0.0/16", SeenAs: "10.74.0.0/16"}},
			Gateways:     []v1alpha1.GatewayStatus{{Name: "g", LinkUp: true}},
		},
	})
	time.Sleep(30 * time.Second)
	return j
}

// renewed returns how long ago the lease of the node was renewed.
func (j *joined) renewed(t *testing.T) time.Duration {
	t.Helper()
	is, err := j.a.Client(t).Leases("kube-node-lease").Get(t.Context(), "strait-b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return time.Now().Sub(is.Spec.RenewTime.Time)
}

// What makes the lender silent makes the node silent: its lease is renewed while the lender
// answers, and for 15 s after that.
func TestTheNodeIsSilentWhileTheLenderIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ fail, repair func(j *joined) }{
		"the link is cut":                       {func(j *joined) { j.cable.set(true) }, func(j *joined) { j.cable.set(false) }},
		"the provider's API server is stopped":  {func(j *joined) { j.b.Stop() }, func(j *joined) { j.b.Start() }},
		"the provider's API server is unusable": {func(j *joined) { j.b.Pause() }, func(j *joined) { j.b.Resume() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				j := join(t)
				time.Sleep(10 * time.Minute)
				if ago := j.renewed(t); ago > 15*time.Second {
					t.Errorf("while everything works, the lease was renewed %v ago", ago)
				}
				c.fail(j)
				time.Sleep(10 * time.Minute)
				if ago := j.renewed(t); ago < 9*time.Minute+30*time.Second {
					t.Errorf("10 minutes after it failed, the lease was renewed %v ago", ago)
				}
				c.repair(j)
				time.Sleep(time.Minute)
				if ago := j.renewed(t); ago > 15*time.Second {
					t.Errorf("a minute after the repair, the lease was renewed %v ago", ago)
				}
			})
		})
	}
}

// Sending the templates of many pods over a slow link takes longer than the lease lasts.
func TestANodeIsAliveWhileMuchIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		j.cable.mu.Lock()
		j.cable.slow = true
		j.cable.mu.Unlock()
		const pods = 20
		j.a.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"strait.dev/offload": "b"}}})
		for i := range pods {
			name := fmt.Sprint("large-", i)
			j.a.Add(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Status: corev1.PodStatus{Phase: corev1.PodPending},
				Spec: corev1.PodSpec{NodeName: "strait-b", Containers: []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "LONG", Value: strings.Repeat(fmt.Sprint(i), 200<<10/len(fmt.Sprint(i)))}}}}},
			})
		}
		var longest time.Duration
		for range 4 * 60 {
			time.Sleep(time.Second)
			longest = max(longest, j.renewed(t))
		}
		twins, err := j.b.Client(t).Pods("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(twins.Items) != pods {
			t.Errorf("%d twins are made, %v", len(twins.Items), err)
		}
		if longest > 20*time.Second {
			t.Errorf("the lease was not renewed for %v", longest)
		}
	})
}

// Otherwise the node would stay ready, with all that is lent as its capacity.
func TestANodeIsLostWhenItsClusterBorrowsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		p, err := j.a.Client(t).Peerings().Get(t.Context(), "b", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Spec.Borrow = nil
		j.a.Add(p)
		time.Sleep(2 * time.Minute)
		if ago := j.renewed(t); ago < time.Minute {
			t.Errorf("its lease was renewed %v ago", ago)
		}
	})
}

// A borrower that was given the name of a machine would write its status, and remove its pods.
func TestTheNodeOfAMachineIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		j.stopBorrower()
		j.a.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "strait-b"}})
		j.borrow(t)
		time.Sleep(2 * time.Minute)
		if ago := j.renewed(t); ago < 2*time.Minute {
			t.Errorf("its lease was renewed %v ago", ago)
		}
	})
}

// Without a node, the control plane removes its pods within a minute.
func TestASilentNodeThatWasDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		j.cable.set(true)
		time.Sleep(time.Minute)
		if err := j.a.Client(t).Nodes().Delete(t.Context(), "strait-b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		is, err := j.a.Client(t).Nodes().Get(t.Context(), "strait-b", metav1.GetOptions{})
		if err != nil || len(is.Status.Conditions) != 0 {
			t.Errorf("30 s later it has the conditions %+v, %v", is.Status.Conditions, err)
		}
		if ago := j.renewed(t); ago < time.Minute {
			t.Errorf("its lease was renewed %v ago", ago)
		}
	})
}
