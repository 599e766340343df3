package allocation

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// previewed is a cluster. Its API server is outside of these ranges.
func previewed() *v1alpha1.ClusterNetwork {
	return &v1alpha1.ClusterNetwork{
		Spec: v1alpha1.ClusterNetworkSpec{InternalCIDRs: []v1alpha1.CIDR{"10.80.0.0/16"}, ExternalCIDRs: []v1alpha1.CIDR{"10.70.0.0/16"}, RemapPools: []v1alpha1.CIDR{"10.64.0.0/10"}},
		Status: v1alpha1.ClusterNetworkStatus{ClusterID: "a", PodCIDRs: []v1alpha1.CIDR{"10.0.0.0/16"}, ServiceCIDRs: []v1alpha1.CIDR{"10.96.0.0/16"},
			NodeCIDRs: []v1alpha1.CIDR{"192.0.2.0/24"}},
	}
}

func TestAPreviewIsWhatTheControllerWouldDo(t *testing.T) {
	claim := func(prefix, of, cidr v1alpha1.CIDR) v1alpha1.AddressClaim {
		return v1alpha1.AddressClaim{Spec: v1alpha1.AddressClaimSpec{Prefix: prefix, Pool: v1alpha1.PoolRemap, For: cidr,
			Owner: v1alpha1.ClaimOwner{Kind: KindPeering, Name: string(of)}}}
	}
	held := []v1alpha1.AddressClaim{claim("10.65.0.0/16", "b", "10.0.0.0/16"), claim("10.9.0.0/16", "c", "10.9.0.0/16")}
	api := []netip.Addr{netip.MustParseAddr("198.51.100.4")}
	for _, c := range []struct {
		peering   string
		wanted    v1alpha1.RemotePrefix
		announced bool // and not listed
		seenAs    v1alpha1.CIDR
		reason    string
	}{
		{"new", v1alpha1.RemotePrefix{CIDR: "10.0.0.0/16"}, false, "10.64.0.0/16", "overlaps this cluster's pod CIDR"},
		{"b", v1alpha1.RemotePrefix{CIDR: "10.0.0.0/16"}, false, "10.65.0.0/16", "overlaps this cluster's pod CIDR"},
		{"new", v1alpha1.RemotePrefix{CIDR: "10.9.0.0/16"}, false, "10.64.0.0/16", "overlaps the grant of Peering c"},
		{"c", v1alpha1.RemotePrefix{CIDR: "10.9.0.0/16"}, false, "10.9.0.0/16", "overlaps no prefix in use in this cluster"},
		{"new", v1alpha1.RemotePrefix{CIDR: "198.51.100.0/24"}, false, "10.64.0.0/24", "overlaps this cluster's API server"},
		{"new", v1alpha1.RemotePrefix{CIDR: "172.20.0.0/16", SeenAs: "10.96.0.0/16"}, false, "", "overlaps this cluster's service CIDR"},
		{"new", v1alpha1.RemotePrefix{CIDR: "172.20.0.0/16"}, false, "172.20.0.0/16", "overlaps no prefix in use"},
		{"new", v1alpha1.RemotePrefix{CIDR: "172.20.0.0/16"}, true, "10.64.0.0/16", "172.20.0.0/16 was announced by the remote cluster, and is not listed in the Peering"},
		{"new", v1alpha1.RemotePrefix{CIDR: "172.20.0.0/16", SeenAs: "172.20.0.0/16"}, true, "172.20.0.0/16", "seenAs of the peering maps"},
		{"c", v1alpha1.RemotePrefix{CIDR: "10.9.0.0/16"}, true, "10.9.0.0/16", "10.9.0.0/16 was granted before, and stays"},
		{"new", v1alpha1.RemotePrefix{CIDR: "10.0.0.0/9"}, false, "", "no other prefix is free"},
	} {
		views, err := Preview(previewed(), api, held, c.peering, v1alpha1.RemotePrefixes{c.wanted}, func(v1alpha1.CIDR) bool { return !c.announced })
		if err != nil || len(views) != 1 || views[0].SeenAs != c.seenAs || !strings.Contains(views[0].Reason, c.reason) {
			t.Errorf("%s of Peering %s: %+v, %v; want %q because %q", c.wanted.CIDR, c.peering, views, err, c.seenAs, c.reason)
		}
	}
}

func TestAPreviewOfAClusterThatCannotAllocateSaysWhy(t *testing.T) {
	n := previewed()
	n.Spec.InternalCIDRs = []v1alpha1.CIDR{"10.0.128.0/17"}
	_, err := Preview(n, nil, nil, "b", nil, nil)
	if want := "this cluster's internal CIDR 10.0.128.0/17 overlaps this cluster's pod CIDR 10.0.0.0/16; choose another CIDR in spec.internalCIDRs or spec.externalCIDRs"; fmt.Sprint(err) != want {
		t.Errorf("says %v, want %s", err, want)
	}
	n = previewed()
	n.Status.PodCIDRs = []v1alpha1.CIDR{"pods"}
	if _, err := Preview(n, nil, nil, "b", nil, nil); err == nil || err.Error() != `"pods" is not a prefix` {
		t.Errorf("says %v", err)
	}
}
