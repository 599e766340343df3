package controller_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/network"
	"strait.dev/strait/k8s/rbac"
)

// about is the ClusterProperty cluster.clusterset.k8s.io on a server.
type about struct{ version, value string }

func (a *about) on(f *fixture) {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		path := "/apis/about.k8s.io/" + version + "/clusterproperties/cluster.clusterset.k8s.io"
		f.cluster.(memory).Handle(path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if a.version != version {
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
				return
			}
			fmt.Fprintf(w, `{"apiVersion":"about.k8s.io/%s","kind":"ClusterProperty","spec":{"value":%q}}`, version, a.value)
		}))
	}
}

// untilID waits until the controller has seen a node with this address, and reports this
// cluster ID.
func (f *fixture) untilID(want, address string) {
	f.Helper()
	f.until("cluster ID "+want, func() string {
		is, err := f.ClusterNetworks().Get(f.Context(), "default", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if got := fmt.Sprintf("%s of %s", is.Status.ClusterID, is.Status.Sources.ClusterID); got != want || !slices.Contains(is.Status.NodeCIDRs, v1alpha1.CIDR(address+"/32")) {
			return fmt.Sprintf("%s, nodes %s", got, is.Status.NodeCIDRs)
		}
		return ""
	})
}

// KEP-2149. The remote clusters refuse a cluster that changes its ID.
func TestTheClusterPropertyAtInstallationIsTheClusterID(t *testing.T) {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			inMemory(t, func(t *testing.T, f *fixture) {
				property := &about{version, "berlin"}
				property.on(f)
				f.node("node-1", "192.0.2.21", "10.0.0.0/24")
				detected, err := network.Detected(t.Context(), f.Client)
				must(t, err)
				if detected.Status.ClusterID != "berlin" {
					t.Errorf("detected cluster ID %s", detected.Status.ClusterID)
				}
				stop := f.start(f.cluster.Account(t, "strait-system", "strait-controller", rbac.Controller), "strait-system", "first")
				f.untilID("berlin of ClusterProperty", "192.0.2.21")
				for i, later := range []about{{version, "paris"}, {}} {
					stop()
					*property = later
					stop = f.lead()
					address := fmt.Sprintf("192.0.2.%d", 31+2*i)
					f.node(fmt.Sprintf("node-%d", 2+i), address, fmt.Sprintf("10.0.%d.0/24", 1+i))
					f.untilID("berlin of ClusterProperty", address)
				}
			})
		})
	}
}

func TestAClusterPropertyChangesNoClusterIDInUse(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		property := new(about)
		property.on(f)
		stop := f.lead()
		system, err := f.cluster.Kubernetes().CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
		must(t, err)
		own := "c" + string(system.UID)[:8] + " of kube-system"
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.untilID(own, "192.0.2.21")
		stop()
		*property = about{"v1beta1", "berlin"}
		f.lead()
		f.node("node-2", "192.0.2.31", "10.0.1.0/24")
		f.untilID(own, "192.0.2.31")
	})
}

func TestAClusterPropertyThatIsNoLabelIsIgnored(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		property := &about{"v1beta1", "Berlin/1"}
		property.on(f)
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.lead()
		f.until("a warning", func() string {
			if !f.logged("is not an RFC 1123 label and is ignored") {
				return "none"
			}
			return ""
		})
		system, err := f.cluster.Kubernetes().CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
		must(t, err)
		f.untilID("c"+string(system.UID)[:8]+" of kube-system", "192.0.2.21")
	})
}
