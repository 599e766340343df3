//go:build apiserver || nightly

package clusters

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodsWithOverlappingCIDRsReachEachOtherWithPlainObjects(t *testing.T) {
	p := newPair(t)
	b, a := p.join(t)
	pingAll(t, p.a, p.b, b)
	pingAll(t, p.b, p.a, a)
	for _, c := range []*cluster{p.a, p.b} {
		for _, g := range c.gateways {
			unprivilegedProcess(t, g.Program, "0000000000000000")
		}
		for _, h := range c.helpers {
			unprivilegedProcess(t, h, "0000000000001000") // CAP_NET_ADMIN
		}
	}

	t.Run("deleted configuration is repaired", func(t *testing.T) { p.repairs(t) })
	t.Run("a gateway moves", func(t *testing.T) { p.moves(t) })
}

var ourLink = regexp.MustCompile(`cni-strait[0-9a-v]{5}`)

// repairs deletes the configuration of a node helper: it is repaired within 2 s.
func (p *pair) repairs(t *testing.T) {
	node, to := p.a.nodes[1], seen(t, p.a.peering(t, "b"), podAddresses[1])
	link := ourLink.FindString(node.Run(t, "ip", "-o", "link"))
	if link == "" {
		t.Fatalf("no link of Strait:\n%s", node.Run(t, "ip", "-o", "link"))
	}
	for what, command := range map[string][]string{
		"the link":   {"ip", "link", "del", link},
		"the routes": {"ip", "nexthop", "flush", "protocol", "91"}, // with the routes that refer to them
		"the rule":   {"ip", "rule", "del", "priority", "105"},
		"the table":  {"nft", "delete", "table", "inet", "strait"},
		"link down":  {"ip", "link", "set", link, "down"},
	} {
		traffic := ping(t, p.a.pods[1], to)
		node.Run(t, command[0], command[1:]...)
		took := within(t, 2*time.Second, what+" is repaired", func() error {
			out, err := p.a.pods[1].Try("ping", "-n", "-c", "1", "-W", "0.2", to)
			if err != nil {
				return fmt.Errorf("%s", out)
			}
			return nil
		})
		for _, want := range [][]string{{"ip", "link", "show", link}, {"nft", "list", "table", "inet", "strait"}} {
			within(t, 2*time.Second, fmt.Sprint(want), func() error {
				_, err := node.Try(want[0], want[1:]...)
				return err
			})
		}
		longest, lost := traffic.outage(t)
		if timely && longest > 2*time.Second {
			t.Errorf("%s: no traffic for %v", what, longest)
		}
		t.Logf("%s: a ping crossed after %v; longest time without %v, %d lost", what, took.Round(time.Millisecond), longest, lost)
	}
}

// moves gives a gateway's pod another address, like a new pod: traffic resumes within 3 s
// after the pod has started.
func (p *pair) moves(t *testing.T) {
	to := seen(t, p.a.peering(t, "b"), podAddresses[1])
	p.a.gateways["b-0"].remove(t)
	g := p.a.runGateway(t, "b-0", 1, "10")
	begun := time.Now()
	g.serveNodePort(t)
	for i, pod := range p.a.pods {
		within(t, 3*time.Second-time.Since(begun), fmt.Sprintf("pod %d reaches cluster b", i+1), func() error {
			out, err := pod.Try("ping", "-n", "-c", "1", "-W", "0.2", to)
			if err != nil {
				return fmt.Errorf("%s", out)
			}
			return nil
		})
	}
	t.Logf("traffic resumed %v after the pod started with another address", time.Since(begun).Round(10*time.Millisecond))
	within(t, 30*time.Second, "the Peering reports it", func() error {
		b := p.a.peering(t, "b")
		if err := conditionTrue(b.Status.Conditions, "Ready"); err != nil {
			return err
		}
		if g := b.Status.Gateways[0]; g.Node != nodeName(1) || len(g.PodAddresses) != 1 || g.PodAddresses[0] != "10.0.2.10" {
			return fmt.Errorf("%+v", g)
		}
		return nil
	})
}

// Deleting a Peering removes its routes, whatever the other cluster does.
func TestF16_ADeletedPeeringLeavesNothing(t *testing.T) {
	p := newPair(t)
	b, _ := p.join(t)
	to := seen(t, b, podAddresses[0])
	must(t, p.a.admin.Peerings().Delete(t.Context(), "b", metav1.DeleteOptions{}))
	node := p.a.nodes[1]
	within(t, 30*time.Second, "the node has no link to a gateway", func() error {
		if out := node.Run(t, "ip", "-o", "link"); ourLink.MatchString(out) {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	if out, err := p.a.pods[1].Try("ping", "-n", "-c", "1", "-W", "1", to); err == nil {
		t.Errorf("%s is still reached:\n%s", to, out)
	}
	within(t, 30*time.Second, "the claims are released", func() error {
		claims, err := p.a.admin.AddressClaims().List(t.Context(), metav1.ListOptions{})
		for _, c := range claims.Items {
			if c.Spec.Owner.Kind != "NodeAttachment" {
				return fmt.Errorf("%s of %s %s", c.Name, c.Spec.Owner.Kind, c.Spec.Owner.Name)
			}
		}
		return err
	})
}
