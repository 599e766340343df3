//go:build nightly

package nodes

import (
	"strings"
	"testing"

	"strait.dev/strait/test/wait"
)

// The address of a Service answers, and answers again after the node that announces it has
// lost its power.
func TestMetalLBMovesAnAddressToAnotherNode(t *testing.T) {
	lab := New(t)
	c := lab.Start(t, Options{Name: "a", Index: 1, Nodes: 3})[0]
	c.StartMetalLB(t)
	kubectl(t, lab, c.name, workloads, "apply", "-f", "-")
	kubectl(t, lab, c.name, "", "rollout", "status", "daemonset/web", "--timeout=10m")
	kubectl(t, lab, c.name, "", "patch", "service", "web", `--patch={"spec":{"type":"LoadBalancer"}}`)
	var address string
	wait.Until(t, "the Service has an address", func() bool {
		address = kubectl(t, lab, c.name, "", "get", "service", "web", "--output=jsonpath={.status.loadBalancer.ingress[0].ip}")
		return address != ""
	})
	if !strings.HasPrefix(address, "172.30.1.2") {
		t.Errorf("the address is %s", address)
	}
	answers := func() bool {
		return lab.Command(t.Context(), "busybox", "timeout", "2", "busybox", "wget", "-q", "-O-", "http://"+address+"/").Run() == nil
	}
	wait.Until(t, "the address answers", answers)
	announcer := func() string {
		return kubectl(t, lab, c.name, "", "--namespace=metallb-system", "get", "servicel2statuses", "--output=jsonpath={.items[*].status.node}")
	}
	var lost string
	wait.Until(t, "a node announces the address", func() bool { lost = announcer(); return lost != "" })
	c.PowerOff(t, int(lost[len(lost)-1]-'0'))
	wait.Until(t, "another node announces the address", func() bool { now := announcer(); return now != "" && now != lost })
	wait.Until(t, "the address answers again", answers)
}
