package operator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestStatusShowsWhichNodesUseAGateway(t *testing.T) {
	t.Parallel()
	var nodes []v1alpha1.NodeAttachment
	for i := range 7 {
		n := v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}}
		n.Status.Gateways = []v1alpha1.NodeGateway{{Name: "b-0", State: v1alpha1.Forwarding, InUse: true}, {Name: "b-1", State: v1alpha1.Forwarding, InUse: true}, {Name: "c-0", State: v1alpha1.NoLinks, InUse: true}}
		if i > 1 {
			n.Status.Gateways[1] = v1alpha1.NodeGateway{Name: "b-1", State: v1alpha1.NoAnswer}
		}
		nodes = append(nodes, n)
	}
	nodes = append(nodes, v1alpha1.NodeAttachment{Status: v1alpha1.NodeAttachmentStatus{Gateways: []v1alpha1.NodeGateway{{Name: "b-0", Ready: true}}}}) // of an earlier version
	r := &Report{Peerings: []PeeringReport{{Name: "b", Ready: true, Spread: []GatewaySpread{{Gateway: "b-0"}, {Gateway: "b-1"}}}}}
	r.Peerings[0].addSpread(nodes)
	var b strings.Builder
	if err := Table(&b, r, time.Now(), false); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"  b-0      7 of 7 nodes\n",
		"  b-1      2 of 7 nodes; not node-2: NoAnswer, node-3: NoAnswer, node-4: NoAnswer, and 2 more\n",
	} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("%q is missing in\n%s", line, b.String())
		}
	}
}
