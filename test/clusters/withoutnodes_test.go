//go:build apiserver || nightly

package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcscrds "sigs.k8s.io/mcs-api/config/crd"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/netns"
)

// answer serves HTTP in a pod: it says the name, and from where it is asked.
func answer(t *testing.T, pod *netns.Namespace, address, name string) {
	t.Helper()
	var listener net.Listener
	must(t, pod.In(func() (err error) { listener, err = net.Listen("tcp", address+":8080"); return err }))
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(w, "%s to %s", name, host)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

// ask sends an HTTP request from a pod, on a connection of its own.
func ask(pod *netns.Namespace, address string) (string, error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(_ context.Context, network, address string) (conn net.Conn, err error) {
			err = pod.In(func() error { conn, err = net.DialTimeout(network, address, 5*time.Second); return err })
			return conn, err
		}}}
	response, err := client.Get("http://" + address)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// asked waits until a Service gives one of these answers to each pod, at an address.
func (c *cluster) asked(t *testing.T, address string, answers ...string) {
	t.Helper()
	for _, pod := range c.pods {
		within(t, 20*time.Second, fmt.Sprintf("%v answers in cluster %s at %s", answers, c.name, address), func() error {
			got, err := ask(pod, address)
			if err == nil && !slices.Contains(answers, got) {
				err = errors.New(got)
			}
			return err
		})
	}
}

// carriers returns the addresses and ports of the ready endpoints of an import, sorted.
func (c *cluster) carriers(t *testing.T, name, from string) (all []string, err error) {
	list, err := c.admin.EndpointSlices(shop).List(t.Context(), metav1.ListOptions{
		LabelSelector: mcsv1beta1.LabelServiceName + "=" + name + "," + mcsv1beta1.LabelSourceCluster + "=" + from,
	})
	if err != nil {
		return nil, err
	}
	for _, s := range list.Items {
		for _, e := range s.Endpoints {
			if len(s.Ports) == 1 && *e.Conditions.Ready {
				all = append(all, fmt.Sprintf("%s:%d", e.Addresses[0], *s.Ports[0].Port))
			}
		}
	}
	slices.Sort(all)
	return all, nil
}

// carriedBy waits until the endpoints of an import are the port of these gateways, and
// returns them.
func (c *cluster) carriedBy(t *testing.T, limit time.Duration, name, from string, gateways ...string) (all []string, took time.Duration) {
	t.Helper()
	took = within(t, limit, fmt.Sprintf("the endpoints of %s are the gateways %v", name, gateways), func() error {
		r, err := c.admin.ReceivedServices(gatewayNamespace).Get(t.Context(), name+"."+shop+"."+from, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(r.Status.Ports) != 1 {
			return fmt.Errorf("ports %+v", r.Status.Ports)
		}
		var want []string
		for _, g := range gateways {
			want = append(want, fmt.Sprintf("%s:%d", g, r.Status.Ports[0].Port))
		}
		if all, err = c.carriers(t, name, from); err == nil && !slices.Equal(all, want) {
			err = fmt.Errorf("%v, want %v", all, want)
		}
		return err
	})
	return all, took
}

// Cluster b has no node helpers. Services are imported and reached in both directions, with
// the permissions and policies of an installation, between clusters with the same pod CIDR.
func TestServicesAreReachedInAndFromAClusterWithoutNodeHelpers(t *testing.T) {
	parallelUnlessTimed(t)
	p := &pair{wan: newWAN(t)}
	p.a = p.cluster(t, "a", "192.0.2", 2, false)
	p.b = p.cluster(t, "b", "198.51.100", 2, true)
	for _, c := range []*cluster{p.a, p.b} {
		c.InstallCRDs(t, fstest.MapFS{"exports.yaml": {Data: mcscrds.ServiceExportCRD}, "imports.yaml": {Data: mcscrds.ServiceImportCRD}})
		must(t, c.Namespace(t.Context(), shop))
	}
	atA, atB := p.joinWith(t, 2)
	must(t, conditionTrue(atB.Status.Conditions, v1alpha1.ConditionRouted))
	if attachments, err := p.b.admin.NodeAttachments().List(t.Context(), metav1.ListOptions{}); err != nil || len(attachments.Items) > 0 {
		t.Errorf("NodeAttachments of cluster b: %+v, %v", attachments, err)
	}
	for _, g := range p.b.gateways {
		unprivilegedProcess(t, g.Program, "0000000000000000")
	}

	answer(t, p.a.pods[0], podAddresses[0], "web of a")
	answer(t, p.b.pods[1], podAddresses[1], "api of b")
	p.a.exportService(t, "web", podAddresses[0])
	p.b.exportService(t, "api", podAddresses[1])

	// From b: pods connect to their gateways. The server sees a gateway's external address.
	endpoints, _ := p.b.carriedBy(t, time.Minute, "web", "a", "10.0.1.9", "10.0.2.9")
	for i, endpoint := range endpoints {
		p.b.asked(t, endpoint, "web of a to "+seen(t, atA, string(atB.Status.Gateways[i].ExternalAddresses[0])))
	}
	// From a: pods connect to the mapped address. The server sees a gateway's pod.
	address := seen(t, atA, podAddresses[1])
	within(t, time.Minute, "the Service of b is imported in a", func() error {
		all, err := p.a.carriers(t, "api", "b")
		if err == nil && !slices.Equal(all, []string{address + ":8080"}) {
			err = fmt.Errorf("%v", all)
		}
		return err
	})
	p.a.asked(t, address+":8080", "api of b to 10.0.1.9", "api of b to 10.0.2.9")

	p.keepsPorts(t, endpoints)
	p.losesGateway(t)
}

// keepsPorts restarts the controller of b, and exports another Service meanwhile.
func (p *pair) keepsPorts(t *testing.T, before []string) {
	t.Helper()
	version := func() string {
		r, err := p.b.admin.ReceivedServices(gatewayNamespace).Get(t.Context(), "web."+shop+".a", metav1.GetOptions{})
		must(t, err)
		return r.ResourceVersion
	}
	was := version()
	p.b.controller.Kill()
	p.a.exportService(t, "later", podAddresses[0])
	p.b.startController(t)
	p.b.carriedBy(t, time.Minute, "later", "a", "10.0.1.9", "10.0.2.9")
	if after, _ := p.b.carriedBy(t, time.Minute, "web", "a", "10.0.1.9", "10.0.2.9"); !slices.Equal(before, after) {
		t.Errorf("endpoints %v, before %v", after, before)
	}
	if is := version(); is != was {
		t.Errorf("a restart wrote the ReceivedService: version %s, before %s", is, was)
	}
}

// losesGateway kills a gateway: it is no endpoint any more, and requests use the other one.
func (p *pair) losesGateway(t *testing.T) {
	t.Helper()
	p.b.gateways["a-1"].remove(t)
	left, took := p.b.carriedBy(t, time.Second, "web", "a", "10.0.1.9")
	t.Logf("the gateway is no endpoint %v after its pod is gone", took.Round(time.Millisecond))
	for _, pod := range p.b.pods {
		if got, err := ask(pod, left[0]); err != nil {
			t.Errorf("%s, %v", got, err)
		}
	}
	p.b.runGateway(t, "a-1", 1, "10")
	p.b.carriedBy(t, time.Minute, "web", "a", "10.0.1.9", "10.0.2.10")
}
