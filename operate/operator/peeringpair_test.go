package operator

import (
	"net/netip"
	"strings"
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestAPodOfTheOtherClusterIsSeenWithItsHostBits(t *testing.T) {
	s := &Side{Cluster: Cluster{Name: "context a"}, Peering: &v1alpha1.Peering{}}
	s.Peering.Name = "b"
	s.Peering.Status.Prefixes = []v1alpha1.SeenPrefix{{CIDR: "10.0.0.0/16", SeenAs: "10.71.0.0/16"}, {CIDR: "fd10::/48", SeenAs: "fd71::/48"}}
	for there, want := range map[string]string{"10.0.2.9": "10.71.2.9", "fd10::2:9": "fd71::2:9"} {
		got, err := s.Seen(netip.MustParseAddr(there))
		if err != nil || got.String() != want {
			t.Errorf("%s is mapped to %v, %v; want %s", there, got, err, want)
		}
	}
	if got, err := s.Seen(netip.MustParseAddr("10.1.2.9")); err == nil || !strings.Contains(err.Error(), "10.1.2.9") {
		t.Errorf("an address of no range is mapped to %v, %v", got, err)
	}
}

func TestTheRightPeeringIsFoundAndTheWrongOnesAreNamed(t *testing.T) {
	s := &Side{Cluster: Cluster{Name: "context a"}}
	all := make([]v1alpha1.Peering, 2)
	all[0].Name, all[0].Spec.ClusterID = "to-b", "b"
	all[1].Name, all[1].Status.ClusterID = "to-c", "c"
	if p, err := s.with(all, "c", ""); err != nil || p.Name != "to-c" {
		t.Errorf("%v, %v", p, err)
	}
	for _, c := range []struct {
		other v1alpha1.ClusterID
		name  string
		want  string
	}{
		{"d", "", "no Peering with cluster d, only to-b with b, to-c with c"},
		{"b", "to-c", "no Peering to-c with cluster b"},
	} {
		if p, err := s.with(all, c.other, c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %v; want %s", p, err, c.want)
		}
	}
	if _, err := s.with(nil, "b", ""); err == nil || !strings.Contains(err.Error(), "strait peer") {
		t.Errorf("%v", err)
	}
}
