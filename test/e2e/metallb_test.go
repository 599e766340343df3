//go:build nightly

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A node of a loses its power that announces the address of a gateway, and perhaps runs it.
// The address moves to the other node, and the gateways are connected again.
func TestAddressOfALoadBalancerMovesToAnotherNode(t *testing.T) {
	w := newWorld(t)
	w.a.StartMetalLB(t)
	w.install(t)
	w.joinBy(t, "LoadBalancer")
	w.joined(t, 2)
	w.balanced(t)
	web := w.podsMeet(t)
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
	i := slices.IndexFunc(w.web(t, "a", "spec.nodeName"), func(node string) bool { return node != lost })
	stop := w.ping(t, w.web(t, "a", "metadata.name")[i], web)
	begun := time.Now()
	w.a.PowerOff(t, nodeNumber(t, "a", lost))
	eventually(t, "the other node announces the address", func() error {
		if now := announcer(); now == "" || now == lost {
			return fmt.Errorf("%q announces it", now)
		}
		return nil
	})
	moved := time.Since(begun)
	eventually(t, "both gateways of a have links", func() error {
		out, err := w.try(t, "", "kubectl", "--context=a", "get", "peering", peering["a"], `--output=jsonpath={.status.conditions[?(@.type=="GatewaysUp")].status}`)
		if err == nil && out != "True" {
			err = fmt.Errorf("GatewaysUp is %q", out)
		}
		return err
	})
	back := time.Since(begun)
	sent, missing := stop()
	note("a node of a lost its power: its MetalLB address moved after %.0f s, all links were up after %.0f s, %.1f s without packets",
		moved.Seconds(), back.Seconds(), float64(missing)*interval.Seconds())
	if now := w.address(t); now != address {
		t.Errorf("the address of gateway 0 was %s and is %s", address, now)
	}
	if sent < 100 || missing > sent/2 {
		t.Errorf("of %d packets, %d were lost with the node", sent, missing)
	}
}

// address is the address of gateway 0 of a.
func (w *world) address(t *testing.T) string {
	t.Helper()
	return w.do(t, "", "kubectl", "--context=a", "--namespace=strait-gateways", "get", "service", peering["a"]+"-0", "--output=jsonpath={.status.loadBalancer.ingress[0].ip}")
}
