//go:build nightly

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A node of a loses its power that runs a gateway and announces its address. The other gateway is announced by the other
// node (externalTrafficPolicy Local; with Cluster, packets were lost for 7 s, until MetalLB had noticed). The address
// moves with the gateway.
func TestAddressOfALoadBalancerMovesToAnotherNode(t *testing.T) {
	w := newWorld(t)
	w.a.StartMetalLB(t)
	w.install(t)
	w.joinBy(t, "LoadBalancer")
	w.joined(t, 2)
	w.do(t, "", "kubectl", "--context=a", "patch", "peering", peering["a"], "--type=merge", `--patch={"spec":{"gateway":{"service":{"externalTrafficPolicy":"Local"}}}}`)
	for i := range 2 {
		eventually(t, fmt.Sprintf("the Service of gateway %d has the policy", i), func() error {
			out, err := w.try(t, "", "kubectl", "--context=a", "--namespace=strait-gateways", "get", "service", fmt.Sprintf("%s-%d", peering["a"], i), "--output=jsonpath={.spec.externalTrafficPolicy}")
			if err == nil && out != "Local" {
				err = fmt.Errorf("it has %q", out)
			}
			return err
		})
	}
	w.joined(t, 2)
	w.balanced(t)
	// MetalLB 0.15 cannot change status.node, so the speaker of the other node only changes the label.
	announcer := func() string {
		out, err := w.try(t, "", "kubectl", "--context=a", "--namespace=metallb-system", "get", "servicel2statuses",
			"--selector=metallb.io/service-name="+peering["a"]+"-0", `--output=jsonpath={.items[*].metadata.labels.metallb\.io/node}`)
		if err != nil {
			t.Log(err)
		}
		return strings.TrimSpace(out)
	}
	var lost string
	eventually(t, "a node announces the address of gateway 0", func() error {
		if lost = announcer(); lost == "" {
			return fmt.Errorf("no ServiceL2Status has the label of a node")
		}
		return nil
	})
	address := w.address(t)
	traffic := w.startTraffic(t, lost)
	var moved, back time.Duration
	is := traffic.during(t, 0, func() {
		begun := time.Now()
		w.a.PowerOff(t, nodeNumber(t, "a", lost))
		eventually(t, "the other node announces the address", func() error {
			if now := announcer(); now == "" || now == lost {
				return fmt.Errorf("%q announces it", now)
			}
			return nil
		})
		moved = time.Since(begun)
		w.gatewaysLeave(t, "a", lost)
		eventually(t, "both gateways of a have links", func() error {
			out, err := w.try(t, "", "kubectl", "--context=a", "get", "peering", peering["a"], `--output=jsonpath={.status.conditions[?(@.type=="GatewaysUp")].status}`)
			if err == nil && out != "True" {
				err = fmt.Errorf("GatewaysUp is %q", out)
			}
			return err
		})
		back = time.Since(begun)
	})
	note("a node of a lost its power: its MetalLB address moved after %.0f s, all links were up after %.0f s; %s", moved.Seconds(), back.Seconds(), costs(is))
	if now := w.address(t); now != address {
		t.Errorf("the address of gateway 0 was %s and is %s", address, now)
	}
	withNode(t, is)
}

// address is the address of gateway 0 of a.
func (w *world) address(t *testing.T) string {
	t.Helper()
	return w.do(t, "", "kubectl", "--context=a", "--namespace=strait-gateways", "get", "service", peering["a"]+"-0", "--output=jsonpath={.status.loadBalancer.ingress[0].ip}")
}
