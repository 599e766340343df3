//go:build nightly

package e2e

import (
	"strings"
	"testing"

	"strait.dev/strait/test/nodes"
)

// No node, pod or Service has an IPv4 address, and the clusters have the same CIDRs.
func TestClustersWithIPv6OnlyAreJoined(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, nodes.Options{Families: nodes.IPv6}, nodes.Options{CNI: nodes.FlannelVXLAN, Families: nodes.IPv6})
	// The MTU is what Flannel's VXLAN over IPv6 leaves for WireGuard over IPv6: 1500-70-80 bytes. Flannel gives
	// pods an MTU of 1450, which is that of VXLAN over IPv4.
	w.joinedOver(t, []string{"IPv6"}, func(*testing.T) {}, "--set=clusterNetwork.externalCIDRs={fd73:7472:70::/64},clusterNetwork.overlay.mtu=1350")
}

// Cluster a has IPv6 as the first family and b has IPv4: the pods, nodes and Services of a cluster
// that have one address to the outside have different families.
func TestAClusterWithIPv6FirstIsJoinedToOneWithIPv4First(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, nodes.Options{Families: nodes.IPv6First}, nodes.Options{CNI: nodes.FlannelVXLAN, Families: nodes.DualStack})
	w.joinedOver(t, []string{"IPv6", "IPv4"}, w.podsMeetInSecondFamily)
}

// joinedOver checks the life of an installation: check, install, join, use, uninstall. Pods connect in the
// first IP family of each cluster, and then as alsoMeet makes them. values are arguments of helm install.
func (w *world) joinedOver(t *testing.T, families []string, alsoMeet func(*testing.T), values ...string) {
	t.Helper()
	before, err := w.everything(t)
	must(t, err)
	stage(t, "preflight", func(t *testing.T) {
		t.Log(w.do(t, "", "strait", "preflight", "--context=a", "--remote-context=b", "--image="+w.image))
	})
	stage(t, "install", func(t *testing.T) { w.install(t, values...) })
	stage(t, "join", func(t *testing.T) { w.join(t) })
	var web string
	stage(t, "pods", func(t *testing.T) {
		web = w.podsMeet(t)
		alsoMeet(t)
	})
	stage(t, "Service", func(t *testing.T) { w.serviceIsReached(t, web) })
	stage(t, "verify", func(t *testing.T) { w.verifiedIn(t, families...) })
	var revertDNS func(*testing.T)
	stage(t, "DNS", func(t *testing.T) { revertDNS = w.configureDNS(t) })
	stage(t, "Services by name", func(t *testing.T) { w.calledByName(t) })
	stage(t, "unpeer", func(t *testing.T) { w.separate(t) })
	stage(t, "uninstall", func(t *testing.T) {
		w.removePods(t)
		revertDNS(t) // before the CRD of ServiceImports is deleted
		w.uninstall(t)
		w.nothingIsLeft(t, before)
	})
}

// calledByName exports the servers of podsMeet from each cluster, as a Service of the first IP
// family of that cluster, and calls it by name from all pods of the other cluster.
func (w *world) calledByName(t *testing.T) {
	t.Helper()
	for _, way := range [][2]string{{"b", "a"}, {"a", "b"}} {
		here, there := way[0], way[1]
		name := "of-" + there
		w.do(t, strings.ReplaceAll(`
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`, "NAME", name), "kubectl", "--context="+there, "apply", "--filename=-")
		w.do(t, "", "strait", "export", "default/"+name, "--context="+there, "--remote-context="+here, "--wait")
		server := name + ".default.svc.clusterset.local"
		for _, pod := range w.web(t, here, "metadata.name") {
			eventually(t, server+" answers", func() error {
				_, err := w.try(t, "", "kubectl", "--context="+here, "exec", pod, "--", "timeout", "5", "wget", "-q", "-O-", "http://"+server+"/")
				return err
			})
			w.answers(t, here, pod, server, there)
		}
		w.do(t, "", "strait", "unexport", "default/"+name, "--context="+there)
		w.do(t, "", "kubectl", "--context="+there, "delete", "service", name)
	}
}
