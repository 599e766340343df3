package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/test/kube"
)

// joined returns the gateways of two clusters with a link between them: b-0 of Peering b in
// cluster a, which is the receiver, and a-0 of Peering a in cluster b. They do not run yet.
func joined(t *testing.T) (a, b *fixture) {
	t.Helper()
	a, b = inMemory(t), inMemory(t)
	b.options.Peering, b.options.Name, b.options.PodUID = "a", "a-0", "pod-a-0"
	must(t, os.WriteFile(filepath.Join(b.options.KeyDir, "1.key"), privateKey(9), 0o600))
	a.network(t)
	b.network(t)
	_, err := b.admin.ClusterNetworks().ApplyStatus(t.Context(), read[v1alpha1.ClusterNetwork](t, `
metadata: {name: default}
status: {clusterID: b, podCIDRs: [10.0.0.0/16], serviceCIDRs: [10.96.0.0/16]}`), "strait-controller")
	must(t, err)
	for _, end := range []struct{ near, far *fixture }{{a, b}, {b, a}} {
		key, err := daemon.PublicKey(filepath.Join(end.far.options.KeyDir, "1.key"))
		must(t, err)
		p := read[v1alpha1.Peering](t, peeringSpec)
		p.Name, p.Spec.ClusterID = end.near.options.Peering, v1alpha1.ClusterID(end.near.options.Peering)
		p.Spec.Peers = []v1alpha1.Peer{{
			Name: end.far.options.Name, PublicKey: v1alpha1.PublicKey(key.String()), Endpoint: v1alpha1.Endpoint(fmt.Sprintf("127.0.0.1:%d", end.far.options.WireGuardPort)),
		}}
		_, err = end.near.admin.Peerings().Create(t.Context(), p, metav1.CreateOptions{})
		must(t, err)
		end.near.receiver(t, end.near.options.Name)
	}
	return a, b
}

// receiver is what the controller writes when it chooses the receiver of the gateway's
// Peering.
func (w *fixture) receiver(t *testing.T, name string) {
	t.Helper()
	_, err := w.admin.Peerings().ApplyStatus(t.Context(), &v1alpha1.Peering{
		ObjectMeta: metav1.ObjectMeta{Name: w.options.Peering},
		Status: v1alpha1.PeeringStatus{
			Prefixes: []v1alpha1.SeenPrefix{{CIDR: "10.0.0.0/16", SeenAs: "10.71.0.0/16"}},
			Gateways: []v1alpha1.GatewayStatus{{Name: w.options.Name, Number: 1, InternalAddresses: []v1alpha1.IP{"10.80.0.1"}}},
			Services: &v1alpha1.PeeringServicesStatus{Receiver: name},
		},
	}, "strait-controller")
	must(t, err)
}

// recordText is the record of Service shop/NAME with one endpoint.
func recordText(name, address string) string {
	return fmt.Sprintf(`
namespace: shop
name: %s
exportedAt: 2026-06-01T12:00:00Z
type: ClusterSetIP
ports: [{name: http, protocol: TCP, port: 80, appProtocol: kubernetes.io/h2c}]
sessionAffinity: ClientIP
sessionAffinityTimeout: 600
ipFamilies: [IPv4]
internalTrafficPolicy: Cluster
trafficDistribution: PreferClose
labels: {team: shop}
annotations: {a.example/b: c}
endpoints:
- addressType: IPv4
  ports: [{name: http, protocol: TCP, port: 8080}]
  endpoints: [{address: %s, hostname: web-0, zone: z1, ready: true, serving: true}]
`, name, address)
}

// export makes the cluster export a Service, as its controller does.
func (w *fixture) export(t *testing.T, name, address string) *v1alpha1.ServiceRecord {
	t.Helper()
	e := &v1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Name: name + ".shop"}, Spec: *read[v1alpha1.ServiceRecord](t, recordText(name, address))}
	_, err := w.admin.ExportedServices("strait").Apply(t.Context(), e, "strait-controller")
	must(t, err)
	return &e.Spec
}

func (w *fixture) unexport(t *testing.T, name string) {
	t.Helper()
	must(t, w.admin.ExportedServices("strait").Delete(t.Context(), name+".shop", metav1.DeleteOptions{}))
}

// received returns the ReceivedServices of a cluster, each as NAME: YAML of its record.
func (w *fixture) received(t *testing.T) (all map[string]string, objects []v1alpha1.ReceivedService) {
	t.Helper()
	list, err := w.admin.ReceivedServices("strait").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	all = make(map[string]string)
	for _, o := range list.Items {
		text, err := yaml.Marshal(o.Spec.Service)
		must(t, err)
		all[o.Name] = string(text)
	}
	return all, list.Items
}

// services is the state of receiving that the gateway reports.
func (w *fixture) services(t *testing.T) v1alpha1.ServicesReport {
	t.Helper()
	if r := w.report(t); r != nil && r.Services != nil {
		return *r.Services
	}
	return v1alpha1.ServicesReport{}
}

func TestAnExportOfOneClusterIsReceivedByTheOther(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	exported := b.export(t, "web", "10.0.1.5")
	a.run(t)
	b.run(t)
	is := func(name, address string) func() bool {
		want, err := yaml.Marshal(read[v1alpha1.ServiceRecord](t, recordText(name, address)))
		must(t, err)
		return func() bool { all, _ := a.received(t); return all[name+".shop.b"] == string(want) }
	}
	a.eventually(t, "the Service is received", is("web", "10.0.1.5"))
	_, objects := a.received(t)
	p, err := a.admin.Peerings().Get(t.Context(), "b", metav1.GetOptions{})
	must(t, err)
	if o := objects[0]; o.Spec.Peering != "b" || o.Labels[peering.Label] != "b" || len(o.OwnerReferences) != 1 || o.OwnerReferences[0].UID != p.UID || o.Spec.Service.Name != exported.Name {
		t.Errorf("%+v", o)
	}
	a.eventually(t, "the report says so", func() bool {
		s := a.services(t)
		return s.From == "a-0" && s.Synced && s.Received == 1 && s.Refused == 0 && s.Message == ""
	})
	a.eventually(t, "and the metrics", a.has("strait_received_services 1"))
	a.eventually(t, "and those of the other cluster", b.has("strait_exported_services 1"))

	b.export(t, "web", "10.0.1.6")
	a.eventually(t, "the change is received", is("web", "10.0.1.6"))
	b.export(t, "db", "10.0.1.7")
	a.eventually(t, "a second Service", is("db", "10.0.1.7"))
	b.unexport(t, "web")
	a.eventually(t, "the first one is gone", func() bool { all, _ := a.received(t); return len(all) == 1 })
	a.eventually(t, "the lag is measured", func() bool {
		return !strings.Contains(b.get("/metrics"), "strait_export_lag_seconds_count{gateway=\"a-0\",peering=\"a\"} 0")
	})

	a.receiver(t, "b-1")
	a.eventually(t, "another gateway is the receiver", func() bool { return a.report(t).Services == nil })
	b.unexport(t, "db")
	a.receiver(t, "b-0")
	a.eventually(t, "what is gone meanwhile is removed", func() bool { all, _ := a.received(t); return len(all) == 0 })

	b.export(t, "web", "10.0.1.5")
	a.eventually(t, "the Service is received again", is("web", "10.0.1.5"))
	kube.Edit(t, a.admin.Peerings(), "b", func(p *v1alpha1.Peering) { p.Spec.Services.ImportFrom = v1alpha1.ImportNone })
	a.eventually(t, "a Peering that imports nothing has none", func() bool { all, _ := a.received(t); return len(all) == 0 })
}
