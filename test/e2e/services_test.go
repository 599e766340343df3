//go:build e2e || nightly

package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/nodes"
)

// unchangedFor is how long something must stay as it is.
const unchangedFor = 5 * time.Second

// atOnce is the number of behaviours that are tested at the same time.
const atOnce = 4

// site is a cluster of a test about Services.
type site struct {
	w      *world
	name   string
	client *client.Client
}

func (w *world) site(t *testing.T, name string, c *nodes.Cluster) *site {
	t.Helper()
	api, err := client.New(c.Admin())
	must(t, err)
	return &site{w, name, api}
}

// sites returns the clusters, each with a pod that resolves and calls names.
func (w *world) sites(t *testing.T) (all []*site) {
	t.Helper()
	for i, name := range w.names {
		all = append(all, w.site(t, name, w.clusters[i]))
		w.do(t, "", "kubectl", "--context="+name, "create", "namespace", clients)
		eventually(t, "a pod is created, once the namespace has a service account", func() error {
			_, err := w.try(t, "", "kubectl", "--context="+name, "--namespace="+clients, "run", "request", "--image="+nodes.Busybox, "--grace-period=1")
			return err
		})
	}
	for _, name := range w.names {
		w.do(t, "", "kubectl", "--context="+name, "--namespace="+clients, "wait", "--for=condition=Ready", "pod/request", "--timeout=10m")
	}
	return all
}

// clients is the namespace of a pod in each cluster that resolves and calls names.
const clients = "clients"

// servicesAreShared checks the behaviours of the Multi-Cluster Services API. With distinct
// pod CIDRs, pods have the same addresses in all clusters.
func (w *world) servicesAreShared(t *testing.T, distinct bool) {
	t.Helper()
	sites := w.sites(t)
	t.Run("behaviours", func(t *testing.T) {
		// Tests wait most of the time. t.Parallel would run as many at once as there are cores.
		queue := make(chan int, len(behaviours))
		for i := range behaviours {
			queue <- i
		}
		close(queue)
		var workers sync.WaitGroup
		for range atOnce {
			workers.Go(func() {
				for i := range queue {
					t.Run(behaviours[i].name, func(t *testing.T) { behaviours[i].test(newBehaviour(t, sites, distinct)) })
				}
			})
		}
		workers.Wait()
	})
	for _, s := range sites {
		w.do(t, "", "kubectl", "--context="+s.name, "delete", "namespace", clients, "--wait=false")
	}
}

// behaviour is the fixture of one test: a namespace of its own in both clusters. The Service
// hello of sites[0] is to be exported.
type behaviour struct {
	*testing.T
	sites     []*site
	distinct  bool
	namespace string
	service   *corev1.Service // hello; tests change it before they export it
	export    *mcsv1beta1.ServiceExport
}

func newBehaviour(t *testing.T, sites []*site, distinct bool) *behaviour {
	t.Helper()
	number, _, _ := strings.Cut(t.Name()[strings.LastIndexByte(t.Name(), '/')+1:], "_")
	b := &behaviour{T: t, sites: sites, distinct: distinct, namespace: "mcs-" + strings.ToLower(number), service: helloService(), export: helloExport()}
	for _, s := range sites {
		_, err := s.client.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() {
			if err := s.client.Namespaces().Delete(context.WithoutCancel(t.Context()), b.namespace, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	return b
}

// hello is the name of the Service and of its pods.
const hello = "hello"

func helloService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: hello, Labels: map[string]string{"of-service": "true"}, Annotations: map[string]string{"of-service": "true"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": hello},
			Ports: []corev1.ServicePort{
				{Name: "tcp", Port: 42, Protocol: corev1.ProtocolTCP},
				{Name: "udp", Port: 42, Protocol: corev1.ProtocolUDP},
			},
			SessionAffinity:       corev1.ServiceAffinityClientIP,
			SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(10))}},
			IPFamilyPolicy:        new(corev1.IPFamilyPolicyPreferDualStack),
		},
	}
}

func helloExport() *mcsv1beta1.ServiceExport {
	return &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: hello, Labels: map[string]string{"of-export": "true"}, Annotations: map[string]string{"of-export": "true"}}}
}

// helloPods is the template of pods that answer HTTP on port 42 with their address.
func helloPods() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": hello}},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{
			Name: hello, Image: nodes.Busybox,
			Command: []string{"sh", "-c", `echo "pod ip $IP" >/tmp/index.html; exec httpd -f -p 42 -h /tmp`},
			Env:     []corev1.EnvVar{{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
		}}},
	}
}

// deploy starts the pods of hello in a cluster.
func (b *behaviour) deploy(on *site, replicas int) {
	b.Helper()
	_, err := on.client.Deployments(b.namespace).Create(b.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: hello},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": hello}}, Template: helloPods()},
	}, metav1.CreateOptions{})
	must(b, err)
}

// create creates a Service in a cluster, and returns it.
func (b *behaviour) create(on *site, s *corev1.Service) *corev1.Service {
	b.Helper()
	s, err := on.client.Services(b.namespace).Create(b.Context(), s.DeepCopy(), metav1.CreateOptions{})
	must(b, err)
	return s
}

// share creates a Service in a cluster and exports it.
func (b *behaviour) share(on *site, s *corev1.Service, e *mcsv1beta1.ServiceExport) *corev1.Service {
	b.Helper()
	s = b.create(on, s)
	_, err := on.client.ServiceExports(b.namespace).Create(b.Context(), e.DeepCopy(), metav1.CreateOptions{})
	must(b, err)
	return s
}

// shareBoth exports b.service from the first cluster, and then another Service from the
// second one.
func (b *behaviour) shareBoth(second *corev1.Service, export *mcsv1beta1.ServiceExport) {
	b.Helper()
	b.service = b.share(b.sites[0], b.service, b.export)
	for _, s := range b.sites { // an export is not older in a cluster than its import there
		b.imported(s, nil)
	}
	time.Sleep(1100 * time.Millisecond) // times of creation have a resolution of a second
	b.share(b.sites[1], second, export)
}

func (b *behaviour) unshare(on *site) {
	b.Helper()
	must(b, on.client.ServiceExports(b.namespace).Delete(b.Context(), hello, metav1.DeleteOptions{}))
}

// until repeats a check until it succeeds, for a limited time.
func (b *behaviour) until(limit time.Duration, what string, check func() error) {
	b.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("%s: not within %v: %v", what, limit, err)
		}
	}
}

// throughout repeats a check, which must succeed each time.
func (b *behaviour) throughout(what string, check func() error) {
	b.Helper()
	for end := time.Now().Add(unchangedFor); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := check(); err != nil {
			b.Fatalf("%s: %v", what, err)
		}
	}
}

// imported returns the ServiceImport in a cluster, once it is as it must be.
func (b *behaviour) imported(in *site, must func(*mcsv1beta1.ServiceImport) error) (is *mcsv1beta1.ServiceImport) {
	b.Helper()
	b.until(importsWithin, "ServiceImport in "+in.name, func() (err error) {
		is, err = in.client.ServiceImports(b.namespace).Get(b.Context(), hello, metav1.GetOptions{})
		if err == nil && must != nil {
			err = must(is)
		}
		return err
	})
	return is
}

// missing returns nil if there is no ServiceImport in a cluster.
func (b *behaviour) missing(in *site) error {
	_, err := in.client.ServiceImports(b.namespace).Get(b.Context(), hello, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the ServiceImport in %s exists", in.name)
}

// present returns nil if there is a ServiceImport in a cluster.
func (b *behaviour) present(in *site) error {
	_, err := in.client.ServiceImports(b.namespace).Get(b.Context(), hello, metav1.GetOptions{})
	return err
}

// condition waits for a condition of the ServiceExport in a cluster.
func (b *behaviour) condition(of *site, kind mcsv1beta1.ServiceExportConditionType, want metav1.ConditionStatus) {
	b.Helper()
	b.until(importsWithin, fmt.Sprintf("ServiceExport in %s is %s=%s", of.name, kind, want), func() error {
		e, err := of.client.ServiceExports(b.namespace).Get(b.Context(), hello, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(e.Status.Conditions, string(kind)); c == nil || c.Status != want {
			return fmt.Errorf("the conditions are %+v", e.Status.Conditions)
		}
		return nil
	})
}

// conflicting waits until the ServiceExports of both clusters report a conflict.
func (b *behaviour) conflicting() {
	b.Helper()
	for _, s := range b.sites {
		b.condition(s, mcsv1beta1.ServiceExportConditionConflict, metav1.ConditionTrue)
	}
}

// fromImport returns the EndpointSlice of an import from a cluster, once it is as it must be.
func (b *behaviour) fromImport(in *site, check func(*discoveryv1.EndpointSlice) error) (is *discoveryv1.EndpointSlice) {
	b.Helper()
	b.until(podsWithin, "EndpointSlice of the import in "+in.name, func() error {
		list, err := in.client.EndpointSlices(b.namespace).List(b.Context(), metav1.ListOptions{LabelSelector: mcsv1beta1.LabelServiceName + "," + mcsv1beta1.LabelSourceCluster})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if is = &list.Items[i]; is.AddressType == discoveryv1.AddressTypeIPv4 && len(is.Endpoints) > 0 {
				return check(is)
			}
		}
		return fmt.Errorf("%d EndpointSlices, none with endpoints", len(list.Items))
	})
	return is
}

// endpointsReady waits until an EndpointSlice of the import has so many ready endpoints. CoreDNS
// keeps an answer with fewer for 30 s.
func (b *behaviour) endpointsReady(in *site, want int) {
	b.Helper()
	b.fromImport(in, func(slice *discoveryv1.EndpointSlice) error {
		ready := 0
		for _, e := range slice.Endpoints {
			if isReady(e) {
				ready++
			}
		}
		if ready != want {
			return fmt.Errorf("%d of %d endpoints are ready, want %d", ready, len(slice.Endpoints), want)
		}
		return nil
	})
}

// isReady reports whether an endpoint is ready, which it is unless it says otherwise.
func isReady(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

// podAddresses returns the IPv4 addresses of the ready pods in a cluster.
func (b *behaviour) podAddresses(of *site, want int) (addresses []string) {
	b.Helper()
	b.until(podsWithin, "pods in "+of.name, func() error {
		addresses = nil
		list, err := of.client.EndpointSlices(b.namespace).List(b.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + hello})
		if err != nil {
			return err
		}
		for _, slice := range list.Items {
			if slice.AddressType != discoveryv1.AddressTypeIPv4 {
				continue
			}
			for _, e := range slice.Endpoints {
				if isReady(e) {
					addresses = append(addresses, e.Addresses...)
				}
			}
		}
		if len(addresses) != want {
			return fmt.Errorf("%d are ready", len(addresses))
		}
		return nil
	})
	return addresses
}

// mapped returns the addresses that pods of the first cluster have in a cluster.
func (b *behaviour) mapped(in *site, addresses []string) (seen []string) {
	b.Helper()
	for _, address := range addresses {
		if in != b.sites[0] && !b.distinct {
			address = strings.TrimSpace(in.w.do(b.T, "", "strait", "resolve", address, "--of="+b.sites[0].name, "--context="+in.name, "--output=address"))
		}
		seen = append(seen, address)
	}
	return seen
}

// host returns the name of the Service in a zone.
func (b *behaviour) host(zone string) string { return hello + "." + b.namespace + ".svc." + zone }

// run returns the output of a shell command in the client of a cluster. As in the
// conformance suite, its failure is an output that does not match.
func (b *behaviour) run(in *site, command string) string {
	out, err := in.w.try(b.T, "", "kubectl", "--context="+in.name, "--namespace="+clients, "exec", "request", "--", "sh", "-c", command)
	if err != nil {
		out += err.Error()
	}
	return out
}

// calls returns a command that calls the Service by name, several times.
func (b *behaviour) calls(times, port int) string {
	return fmt.Sprintf("for i in $(seq %d); do timeout 4 wget -q -O- http://%s:%d/ 2>&1; done; true", times, b.host("clusterset.local"), port)
}

// answersAt waits until calls from a cluster to all addresses of the import are answered.
func (b *behaviour) answersAt(from *site, ips []string) {
	b.Helper()
	for _, ip := range ips {
		b.until(podsWithin, fmt.Sprintf("from %s, %s answers", from.name, ip), func() error {
			out := b.run(from, fmt.Sprintf("timeout 4 wget -q -O- http://%s/ 2>&1", net.JoinHostPort(ip, "42")))
			if !strings.HasPrefix(out, "pod ip ") {
				return fmt.Errorf("the answer is %q", out)
			}
			return nil
		})
	}
}

// reaches waits until calls from all clusters are answered, each by a pod with that address
// in its own cluster; empty: by any pod.
func (b *behaviour) reaches(port, times int, address string) {
	b.Helper()
	want := "pod ip " + address
	for _, s := range b.sites {
		b.until(time.Duration(times)*importsWithin, fmt.Sprintf("from %s, port %d is answered by %q", s.name, port, want), func() error {
			out := b.run(s, b.calls(times, port))
			if strings.Count(out, want) != times || address != "" && strings.Count(out, want+"\n") != times {
				return fmt.Errorf("%d calls are answered with %q", times, out)
			}
			return nil
		})
	}
}
