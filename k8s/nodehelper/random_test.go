package nodehelper

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
	"strait.dev/strait/nodeprobe"
)

// For any objects, the desired state of the kernel is valid, even after parts of it were
// withdrawn.
func TestDesireIsAlwaysValid(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	ips := []v1alpha1.IP{"10.80.0.1", "10.80.0.2", "10.80.0.11", "10.0.1.2", "10.71.0.1", "192.0.2.21", "fd00:80::1", "2001:db8::2", "127.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "nonsense", ""}
	cidrs := []v1alpha1.CIDR{"10.71.0.0/16", "10.71.1.0/24", "10.72.0.0/16", "10.0.0.0/8", "10.71.2.9/16", "0.0.0.0/0", "fd00:71::/48", "::/0", "192.0.2.0/24", "10.80.0.0/16", "::ffff:10.71.0.0/112", "nonsense", ""}
	some := func() (all []v1alpha1.IP) {
		for range 1 + r.IntN(2) {
			n := r.IntN(len(ips))
			if r.IntN(3) > 0 {
				n = r.IntN(4) // ordinary ones
			}
			all = append(all, ips[n])
		}
		return all
	}
	w, now := withdrawn{}, time.Unix(1_000_000, 0)
	routed, linked := 0, 0
	for range 5000 {
		in := input{support: node.Support{Geneve: r.IntN(2) == 0, VXLAN: r.IntN(2) == 0, Userspace: true}, answers: map[string]nodeprobe.State{"g-0": nodeprobe.LinksUp}}
		if r.IntN(8) > 0 {
			in.network = &v1alpha1.ClusterNetwork{Status: v1alpha1.ClusterNetworkStatus{PodCIDRs: cidrs[:r.IntN(2)]}}
		}
		if r.IntN(8) > 0 {
			in.attachment = &v1alpha1.NodeAttachment{Spec: v1alpha1.NodeAttachmentSpec{
				Index: r.Int32N(3), UnderlayAddresses: some(), InternalAddresses: some(), PodCIDRs: cidrs[r.IntN(len(cidrs)):][:1],
			}}
		}
		for i := range r.IntN(3) {
			p := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p-", i)}}
			for range r.IntN(3) {
				p.Status.Prefixes = append(p.Status.Prefixes, v1alpha1.SeenPrefix{SeenAs: cidrs[r.IntN(len(cidrs))]})
				p.Status.Gateways = append(p.Status.Gateways, v1alpha1.GatewayStatus{
					Name: []string{"g-0", "g-1", "g-2"}[r.IntN(3)], Number: r.Int32N(3), InternalAddresses: some(), PodAddresses: some(), MTU: r.Int32N(4) * 500,
				})
			}
			in.peerings = append(in.peerings, p)
		}
		out := computeDesired(in)
		if err := out.desired.Validate(); err != nil {
			t.Fatalf("%v\nof %+v", err, in)
		}
		routed, linked = routed+len(out.desired.Routes), linked+len(out.desired.Gateways)
		now = now.Add(time.Duration(r.Int64N(int64(withdrawnFor))))
		w.drop(&out, now)
		if err := out.desired.Validate(); err != nil {
			t.Fatalf("%v\nafter what was withdrawn was added to %+v", err, in)
		}
	}
	if routed < 100 || linked < 100 {
		t.Errorf("only %d routes and %d links: this test sees too little", routed, linked)
	}
}
