package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"strait.dev/strait/config"
	"strait.dev/strait/control"
	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/k8s/translate"
	"strait.dev/strait/test/alone"
	"strait.dev/strait/test/fakekube"
)

// importing is the receiver of Peering b in virtual time, with an API server in memory and
// one remote gateway.
type importing struct {
	*receiver
	server  *fakekube.Server
	admin   *client.Client
	exports *control.Exports // of the remote cluster
	peering *v1alpha1.Peering
	stop    func()

	mu     sync.Mutex
	writes int // requests that write ReceivedServices
	fault  func(fakekube.Request) error
}

// wire is a listener in memory.
type wire struct {
	arriving chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *wire) Accept() (net.Conn, error) {
	select {
	case c := <-l.arriving:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *wire) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *wire) Addr() net.Addr { return &net.UnixAddr{Name: "wire", Net: "unix"} }

func newImporting(t *testing.T) *importing {
	t.Helper()
	i := &importing{server: fakekube.New(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strait"}})}
	i.server.Fail(func(q fakekube.Request) error {
		if q.Resource != "receivedservices" || q.Verb == "list" || q.Verb == "watch" || q.Verb == "get" {
			return nil
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.writes++
		if i.fault != nil {
			return i.fault(q)
		}
		return nil
	})
	i.admin = i.server.Client(t)
	i.exports = control.NewExports(control.ExportsOptions{Stale: func() bool { return false }, Stored: func(time.Duration) {}})
	must(t, i.exports.Replace(nil))
	log := slog.New(slog.DiscardHandler)
	link := control.Link{Name: "a-0", Gateway: "a-0", OwnKey: config.Key{31: 1}, RemoteKey: config.Key{31: 2}}
	l := &wire{arriving: make(chan net.Conn), closed: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() {
		identify := func(net.Conn) (control.Link, bool) { return link, true }
		accept := func(control.Link, control.Announcement) error { return nil }
		if err := control.Serve(l, identify, accept, i.exports, log); err != nil {
			t.Error(err)
		}
	})
	i.receiver = &receiver{
		options: &Options{Peering: "b", Namespace: "strait", Settings: translate.Settings{Name: "b-0"}}, client: i.admin, metrics: newMetrics(), log: log, changed: make(client.Signal, 1),
		importer: control.ImporterOptions{
			Up: func() []control.Link { return []control.Link{link} },
			Dial: func(ctx context.Context, _ control.Link) (net.Conn, error) {
				near, far := net.Pipe()
				select {
				case l.arriving <- far:
					return near, nil
				case <-l.closed:
				case <-ctx.Done():
				}
				return nil, net.ErrClosed
			},
			Jitter: func() float64 { return 0 }, Budget: new(ratelimit.Bucket), Log: log,
		},
	}
	i.peering = read[v1alpha1.Peering](t, peeringSpec)
	i.peering.UID = "uid-b"
	i.peering.Status.Services = &v1alpha1.PeeringServicesStatus{Receiver: "b-0"}
	i.start(t)
	t.Cleanup(func() { i.stop(); l.Close(); running.Wait() })
	return i
}

// start runs the receiver, as after a restart of the gateway.
func (i *importing) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	r := i.receiver
	running.Go(func() { r.run(ctx) })
	i.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	i.follow(i.peering, time.Now())
}

func (i *importing) restart(t *testing.T) {
	t.Helper()
	i.stop()
	i.policy.Store(nil)
	i.start(t)
}

// change changes the Peering.
func (i *importing) change(edit func(*v1alpha1.Peering)) {
	i.peering = i.peering.DeepCopy()
	edit(i.peering)
	i.follow(i.peering, time.Now())
}

// fail sets the error of requests that write ReceivedServices.
func (i *importing) fail(fault func(fakekube.Request) error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fault = fault
}

// export makes the remote cluster export a record.
func (i *importing) export(t *testing.T, r *v1alpha1.ServiceRecord) {
	t.Helper()
	text, err := json.Marshal(r)
	must(t, err)
	must(t, i.exports.Put(control.ServiceRecord{Key: control.ServiceKey{Namespace: r.Namespace, Name: r.Name}, JSON: text}))
}

func (i *importing) unexport(name string) {
	i.exports.Remove(control.ServiceKey{Namespace: "shop", Name: name})
}

// expect waits, and checks which objects exist, how many requests have written them since
// the last call, and the report.
//
//strait:virtualtime
func (i *importing) expect(t *testing.T, after time.Duration, names string, writes int, message string) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	list, err := i.admin.ReceivedServices("strait").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	var have []string
	for _, o := range list.Items {
		have = append(have, strings.TrimSuffix(o.Name, ".shop.b"))
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if got := strings.Join(have, " "); got != names || i.writes != writes {
		t.Errorf("received %q with %d writes, want %q with %d", got, i.writes, names, writes)
	}
	i.writes = 0
	if report := i.report(); report == nil || !strings.HasPrefix(report.Message, message) || message == "" && report.Message != "" {
		t.Errorf("the report is %+v, want the message %s", report, message)
	}
}

// service is the record of Service shop/NAME.
func service(t *testing.T, name string, edits ...func(*v1alpha1.ServiceRecord)) *v1alpha1.ServiceRecord {
	t.Helper()
	r := read[v1alpha1.ServiceRecord](t, recordText(name, "10.0.1.5"))
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func at(address string) func(*v1alpha1.ServiceRecord) {
	return func(r *v1alpha1.ServiceRecord) { r.Endpoints[0].Endpoints[0].Address = address }
}

func TestEachChangeIsOneRequestAndARestartNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newImporting(t)
		i.export(t, service(t, "web"))
		i.export(t, service(t, "db"))
		i.expect(t, time.Second, "db web", 2, "")
		i.export(t, service(t, "web", at("10.0.1.6")))
		i.expect(t, time.Second, "db web", 1, "")
		i.expect(t, time.Hour, "db web", 0, "")
		i.restart(t)
		i.expect(t, time.Minute, "db web", 0, "")
		i.unexport("db")
		i.expect(t, time.Second, "web", 1, "")
		i.stop()
		i.export(t, service(t, "db"))
		i.unexport("web")
		i.restart(t)
		i.expect(t, time.Second, "db", 2, "")
	})
}

// A burst of changes of one Service is a few requests, and the last one is the latest.
func TestABurstOfChangesIsCoalesced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newImporting(t)
		i.export(t, service(t, "web"))
		i.expect(t, time.Second, "web", 1, "")
		for n := range 100 {
			i.export(t, service(t, "web", at(fmt.Sprintf("10.0.2.%d", n))))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		i.mu.Lock()
		if i.writes > 8 {
			t.Errorf("%d requests", i.writes)
		}
		i.writes = 0
		i.mu.Unlock()
		i.expect(t, time.Minute, "web", 0, "")
		o, err := i.admin.ReceivedServices("strait").Get(t.Context(), "web.shop.b", metav1.GetOptions{})
		must(t, err)
		if a := o.Spec.Service.Endpoints[0].Endpoints[0].Address; a != "10.0.2.99" {
			t.Errorf("the address is %s", a)
		}
	})
}

func TestThePolicyOfThePeeringIsEnforcedWhenItChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newImporting(t)
		for _, name := range []string{"a", "b", "c"} {
			i.export(t, service(t, name))
		}
		i.export(t, service(t, "other", at("10.9.0.1")))
		i.expect(t, time.Second, "a b c", 3, "shop/other is refused: endpoints[0].endpoints[0].address: 10.9.0.1 is not within the prefixes of the remote cluster")
		i.change(func(p *v1alpha1.Peering) {
			p.Spec.Prefixes = append(p.Spec.Prefixes, v1alpha1.RemotePrefix{CIDR: "10.9.0.0/16"})
		})
		i.expect(t, time.Second, "a b c other", 1, "")
		two := int32(2)
		i.change(func(p *v1alpha1.Peering) { p.Spec.Services.MaxServices = &two })
		i.expect(t, time.Second, "c other", 2, "shop/a is refused: more than 2 Services; increase spec.services.maxServices; and 1 more")
		i.expect(t, time.Hour, "c other", 0, "shop/a is refused")
		i.unexport("c") // makes room
		i.expect(t, time.Minute, "a other", 2, "shop/b is refused: more than 2 Services")
		i.change(func(p *v1alpha1.Peering) { p.Spec.Services.MaxServices, p.Spec.Services.MaxEndpoints = nil, &two })
		i.expect(t, time.Second, "a other", 0, "shop/b is refused: more than 2 endpoints")
		i.change(func(p *v1alpha1.Peering) {
			p.Spec.Services = v1alpha1.PeeringServices{ImportFrom: v1alpha1.ImportListed, Namespaces: []string{"bank"}}
		})
		i.expect(t, time.Second, "", 2, "shop/a is refused: its namespace is not in spec.services.namespaces; and 2 more")
		i.change(func(p *v1alpha1.Peering) { p.Spec.Services.Namespaces = []string{"bank", "shop"} })
		i.expect(t, time.Second, "a b other", 3, "")
		i.change(func(p *v1alpha1.Peering) { p.Spec.Services = v1alpha1.PeeringServices{ImportFrom: v1alpha1.ImportNone} })
		i.expect(t, time.Second, "", 3, "spec.services.importFrom is None")
		i.change(func(p *v1alpha1.Peering) { p.Spec.Services = v1alpha1.PeeringServices{} })
		i.expect(t, time.Second, "a b other", 3, "")
		i.change(func(p *v1alpha1.Peering) { p.Status.Services.Receiver = "b-1" })
		i.unexport("a")
		time.Sleep(time.Minute)
		if i.report() != nil {
			t.Error("it reports Services, and is not the receiver")
		}
	})
}

func TestAnObjectThatAnotherClientChangesIsWrittenAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newImporting(t)
		i.export(t, service(t, "web"))
		i.export(t, service(t, "db"))
		i.expect(t, time.Second, "db web", 2, "")
		all := i.admin.ReceivedServices("strait")
		must(t, all.Delete(t.Context(), "web.shop.b", metav1.DeleteOptions{}))
		i.expect(t, 3*compareInterval, "db web", 2, "")
		o, err := all.Get(t.Context(), "db.shop.b", metav1.GetOptions{})
		must(t, err)
		o.Spec.Service.Endpoints = nil
		o.Name, o.UID, o.ResourceVersion, o.Spec.Service.Name = "old.shop.b", "", "", "old"
		_, err = all.Create(t.Context(), o, metav1.CreateOptions{}) // of a gateway that was the receiver
		must(t, err)
		i.expect(t, 3*compareInterval, "db web", 2, "")
	})
}

func TestAnAPIServerThatFailsIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newImporting(t)
		i.fail(func(fakekube.Request) error { return errors.New("no route to host") })
		i.export(t, service(t, "web"))
		i.expect(t, 4*time.Second, "", 3, "write ReceivedService web.shop.b: ")
		i.fail(nil)
		i.expect(t, time.Minute, "web", 1, "")
		i.fail(func(fakekube.Request) error { return errors.New("no route to host") })
		i.unexport("web")
		i.expect(t, 4*time.Second, "web", 3, "delete ReceivedService web.shop.b: ")
		i.fail(nil)
		i.expect(t, time.Minute, "", 1, "")
	})
}

// An object that the API server refuses delays no others.
func TestAnObjectThatTheAPIServerRefusesIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newImporting(t)
		i.export(t, service(t, "web"))
		i.expect(t, time.Second, "web", 1, "")
		refuse := func(request string) {
			i.fail(func(q fakekube.Request) error {
				if q.Verb == request && q.Resource == "receivedservices" {
					return apierrors.NewInvalid(schema.GroupKind{Kind: "ReceivedService"}, "web.shop.b", nil)
				}
				return nil
			})
		}
		refuse("patch")
		i.export(t, service(t, "web", at("10.0.2.1")))
		i.export(t, service(t, "db"))
		i.expect(t, time.Minute, "db", 3, "shop/web is refused: ReceivedService \"web.shop.b\" is invalid")
		refuse("create")
		i.export(t, service(t, "new"))
		i.expect(t, time.Minute, "db", 2, "shop/new is refused: ReceivedService \"web.shop.b\" is invalid; and 1 more")
		i.fail(nil)
		i.expect(t, apiRetryInterval, "db new web", 2, "")
	})
}

// Whether an object exists is known only as of the last look.
func TestAnObjectIsWrittenThatAnotherGatewayHasCreatedOrDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fakekube.New().Client(t)
		policy := &importPolicy{maxServices: 9, maxEndpoints: 9, maxBytes: 1 << 20, prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}}
		write := func(existing map[string]storedService, address string) map[string]storedService {
			t.Helper()
			text, err := json.Marshal(service(t, "web", at(address)))
			must(t, err)
			s := newReceivedServices(c, &Options{Peering: "b", Namespace: "default"}, policy, new(writeBudget), existing)
			must(t, s.Apply(t.Context(), []control.ServiceRecord{{Key: control.ServiceKey{Namespace: "shop", Name: "web"}, JSON: text}}, nil))
			o, err := c.ReceivedServices("default").Get(t.Context(), "web.shop.b", metav1.GetOptions{})
			must(t, err)
			if is := o.Spec.Service.Endpoints[0].Endpoints[0].Address; is != address {
				t.Errorf("the address is %s, want %s", is, address)
			}
			return s.stored
		}
		write(make(map[string]storedService), "10.0.2.1")
		known := write(make(map[string]storedService), "10.0.2.2") // created by another one
		must(t, c.ReceivedServices("default").Delete(t.Context(), "web.shop.b", metav1.DeleteOptions{}))
		write(known, "10.0.2.3") // deleted by another one
	})
}

func TestMalformedRecordsAreRefusedWithAReason(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	many := func(n int) (ports []v1alpha1.ServiceRecordPort) {
		for i := range n {
			ports = append(ports, v1alpha1.ServiceRecordPort{Name: fmt.Sprint("p", i), Protocol: "TCP", Port: 80})
		}
		return ports
	}
	number := func(n int32) *int32 { return &n }
	for name, c := range map[string]struct {
		edit func(*v1alpha1.ServiceRecord)
		says string
	}{
		"no type":              {func(r *v1alpha1.ServiceRecord) { r.Type = "" }, `"" is not a type of imports`},
		"another type":         {func(r *v1alpha1.ServiceRecord) { r.Type = "ExternalName" }, `"ExternalName" is not a type`},
		"too many ports":       {func(r *v1alpha1.ServiceRecord) { r.Ports = many(1025) }, "it has 1025 ports"},
		"a port twice":         {func(r *v1alpha1.ServiceRecord) { r.Ports = append(many(1), many(1)...) }, "two ports are p0"},
		"ports without names":  {func(r *v1alpha1.ServiceRecord) { r.Ports = many(2); r.Ports[0].Name = "" }, "one of several ports has no name"},
		"a port's name":        {func(r *v1alpha1.ServiceRecord) { r.Ports[0].Name = "HTTP" }, `"HTTP" is not the name of a port`},
		"port 0":               {func(r *v1alpha1.ServiceRecord) { r.Ports[0].Port = 0 }, "0 is not a port number"},
		"port 65536":           {func(r *v1alpha1.ServiceRecord) { r.Ports[0].Port = 65536 }, "65536 is not a port number"},
		"a protocol":           {func(r *v1alpha1.ServiceRecord) { r.Ports[0].Protocol = "ICMP" }, `"ICMP" is not a protocol`},
		"appProtocol":          {func(r *v1alpha1.ServiceRecord) { r.Ports[0].AppProtocol = &long }, `"xxx`},
		"sessionAffinity":      {func(r *v1alpha1.ServiceRecord) { r.SessionAffinity = "Cookie" }, `"Cookie" is not a session affinity`},
		"affinity timeout":     {func(r *v1alpha1.ServiceRecord) { r.SessionAffinityTimeout = number(86401) }, "86401 s is not a timeout"},
		"families":             {func(r *v1alpha1.ServiceRecord) { r.IPFamilies = []corev1.IPFamily{"IPv4", "IPv4"} }, "[IPv4 IPv4] are not"},
		"a family":             {func(r *v1alpha1.ServiceRecord) { r.IPFamilies = []corev1.IPFamily{"IPv5"} }, "[IPv5] are not"},
		"traffic policy":       {func(r *v1alpha1.ServiceRecord) { *r.InternalTrafficPolicy = "Zone" }, `"Zone" is not an internal traffic policy`},
		"traffic distribution": {func(r *v1alpha1.ServiceRecord) { r.TrafficDistribution = &long }, `"xxx`},
		"a label":              {func(r *v1alpha1.ServiceRecord) { r.Labels["a b"] = "" }, "labels: "},
		"a label's value":      {func(r *v1alpha1.ServiceRecord) { r.Labels["a"] = long }, "labels: "},
		"an annotation":        {func(r *v1alpha1.ServiceRecord) { r.Annotations["a b"] = "" }, "annotations: "},
		"long annotations":     {func(r *v1alpha1.ServiceRecord) { r.Annotations["a"] = strings.Repeat("x", merge.MaxProperties) }, "its labels and annotations have 41"},
		"address type":         {func(r *v1alpha1.ServiceRecord) { r.Endpoints[0].AddressType = "FQDN" }, `"FQDN" is not a type of IP addresses`},
		"a name as address":    {at("web.example"), "endpoints[0].endpoints[0].address: "},
		"another notation":     {at("::ffff:10.0.1.5"), "endpoints[0].endpoints[0].address: "},
		"another family":       {at("fd00::1"), "endpoints[0].endpoints[0].address: "},
		"a zone":               {func(r *v1alpha1.ServiceRecord) { r.Endpoints[0].Endpoints[0].Zone = "a b" }, "endpoints[0].endpoints[0].zone: "},
		"a host name":          {func(r *v1alpha1.ServiceRecord) { r.Endpoints[0].Endpoints[0].Hostname = "a.b" }, "endpoints[0].endpoints[0].hostname: "},
		"a foreign address":    {at("169.254.169.254"), "endpoints[0].endpoints[0].address: 169.254.169.254 is not within"},
		"ports of endpoints":   {func(r *v1alpha1.ServiceRecord) { r.Endpoints[0].Ports[0].Port = -1 }, "endpoints: -1 is not a port number"},
		"too many endpoints": {func(r *v1alpha1.ServiceRecord) {
			r.Endpoints[0].Endpoints = make([]v1alpha1.ServiceRecordEndpoint, 5001)
		}, "it has 5001 endpoints"},
		"too many groups": {func(r *v1alpha1.ServiceRecord) { r.Endpoints = make([]v1alpha1.ServiceRecordEndpoints, 65) }, "endpoints: 65 entries are too many"},
		"another key":     {func(r *v1alpha1.ServiceRecord) { r.Name = "db" }, "namespace and name occur twice"},
	} {
		policy := &importPolicy{prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}}
		r := service(t, "web")
		if why := policy.check(control.ServiceKey{Namespace: "shop", Name: "web"}, r); why != nil {
			t.Fatalf("without a change: %+v", why)
		}
		c.edit(r)
		if why := policy.check(control.ServiceKey{Namespace: "shop", Name: "web"}, r); why == nil || !strings.HasPrefix(why.text, c.says) {
			t.Errorf("%s: %+v, want %s", name, why, c.says)
		}
	}
}

// What a policy accepts has addresses within its prefixes only.
func FuzzImportPolicy(f *testing.F) {
	policy := &importPolicy{prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("fd00:10::/48")}}
	f.Add([]byte(`{"namespace":"shop","name":"web","type":"Headless","endpoints":[{"addressType":"IPv4","endpoints":[{"address":"10.0.1.5"}]}]}`))
	f.Add([]byte(`{"namespace":"shop","name":"web","Name":"db","type":"ClusterSetIP","ports":[{"protocol":"TCP","port":80}],"labels":{"a":"b"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := receivedServices{peering: "b", policy: policy}
		o, want, why := s.object(control.ServiceRecord{Key: control.ServiceKey{Namespace: "shop", Name: "web"}, JSON: b})
		if why != nil {
			return
		}
		n := 0
		for _, group := range o.Spec.Service.Endpoints {
			for _, e := range group.Endpoints {
				n++
				if a, err := netip.ParseAddr(e.Address); err != nil || !policy.prefixes[0].Contains(a) && !policy.prefixes[1].Contains(a) {
					t.Fatalf("%q is accepted", e.Address)
				}
			}
		}
		if o.Name != "web.shop.b" || n != want.endpoints {
			t.Errorf("%s with %d endpoints became %+v", b, n, want)
		}
	})
}

// 2 000 Services with 50 000 endpoints cost a gateway that exports and receives them less than
// 32 MiB, even while it lists them.
func TestFiftyThousandEndpointsFitIntoAGateway(t *testing.T) {
	if !alone.Process(t) {
		return // what other tests leave becomes garbage at any time
	}
	const services, endpoints = 2000, 25
	example := service(t, "web")
	records := func(yield func(*v1alpha1.ExportedService) bool) {
		for n := range services {
			o := &v1alpha1.ExportedService{Spec: *example.DeepCopy()}
			o.Spec.Name = fmt.Sprint("service-", n)
			group := &o.Spec.Endpoints[0]
			for e := range endpoints {
				copied := group.Endpoints[0]
				copied.Address = fmt.Sprintf("10.0.%d.%d", (n*endpoints+e)>>8&0xff, e)
				copied.Hostname = fmt.Sprintf("service-%d-%d", n, e)
				group.Endpoints = append(group.Endpoints, copied)
			}
			group.Endpoints = group.Endpoints[1:]
			if !yield(o) {
				return
			}
		}
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	exported := &exportedServices{
		exports: control.NewExports(control.ExportsOptions{Stale: func() bool { return false }, Stored: func(time.Duration) {}}),
		metrics: newMetrics(), log: slog.New(slog.DiscardHandler),
	}
	var objects []any
	for o := range records {
		objects = append(objects, o)
	}
	decoded := heap()
	must(t, exported.Replace(objects, ""))
	clear(objects)
	ofExports := heap()

	received := newReceivedObjects()
	must(t, received.Replace(nil, ""))
	policy := &importPolicy{maxServices: services, maxEndpoints: services * endpoints, maxBytes: merge.DefaultMaxBytes, prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}}
	store := newReceivedServices(fakekube.New().Client(t), &Options{Peering: "b"}, policy, new(writeBudget), received.copy())
	for o := range records {
		r, err := exportedRecord(o)
		must(t, err)
		write, _, why := store.decide(r)
		if why != nil {
			t.Fatal(why)
		}
		must(t, received.Add(write.ReceivedService))
	}
	after := heap()
	const mib = 1 << 20
	t.Logf("exports %.1f MiB, objects of the first list %.1f MiB, received %.1f MiB",
		float64(ofExports-before)/mib, float64(decoded-before)/mib, float64(after-ofExports)/mib)
	if most := after - before + decoded - before; most > 32*mib {
		t.Errorf("%d MiB are needed", most/mib)
	}
	runtime.KeepAlive(exported)
	runtime.KeepAlive(store)
	runtime.KeepAlive(received)
}
