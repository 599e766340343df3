package podaddresses

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podsOfTwoNodes has node-1 with 10.0.0.0/16 and fd00::/64, and nothing of others.
func podsOfTwoNodes() (p *clusterPods, changes *int) {
	changes = new(int)
	return newClusterPods(nil, func(node string) []string {
		if node == "node-1" {
			return []string{"10.0.0.0/16", "fd00::/64", "not a range"}
		}
		return nil
	}, func() { *changes++ }), changes
}

func podOn(node, name string, addresses ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	p.Status.Phase = corev1.PodRunning
	for _, a := range addresses {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a})
	}
	return p
}

func TestPodsInsideTheirNodesRangesAreForgottenAsTheyCome(t *testing.T) {
	p, changes := podsOfTwoNodes()
	for i := range 5000 {
		if err := p.Add(podOn("node-1", fmt.Sprint(i), fmt.Sprintf("10.0.%d.%d", i>>8, i&255), fmt.Sprintf("fd00::%x", i))); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.kept) != 0 || *changes != 0 {
		t.Errorf("%d pods are kept, %d changes told", len(p.kept), *changes)
	}
}

func TestPodsThatNeedARouteAreKeptWhileTheyDo(t *testing.T) {
	p, changes := podsOfTwoNodes()
	for _, step := range []struct {
		what string
		do   func() error
		want string
	}{
		{"one family inside, one outside", func() error { return p.Add(podOn("node-1", "x", "10.0.0.5", "fd01::5")) }, "x"},
		{"both inside", func() error { return p.Update(podOn("node-1", "x", "10.0.0.5", "fd00::5")) }, ""},
		{"no address that can be read", func() error { return p.Update(podOn("node-1", "x", "here")) }, "x"},
		{"without an address", func() error { return p.Update(podOn("node-1", "x")) }, ""},
		{"on a node that is not known", func() error { return p.Add(podOn("node-2", "y", "10.0.0.5")) }, "y"},
		{"gone", func() error { return p.Delete(podOn("node-2", "y", "10.0.0.5")) }, ""},
		{"all anew", func() error {
			return p.Replace([]any{podOn("node-2", "z", "10.0.0.5"), podOn("node-1", "x", "10.0.0.5")}, "1")
		}, "z"},
		{"all anew, and none", func() error { return p.Replace(nil, "2") }, ""},
	} {
		before := *changes
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, pod := range p.list() {
			got += pod.name
		}
		if got != step.want || *changes != before+1 {
			t.Errorf("%s: keeps %q, want %q; %d changes told", step.what, got, step.want, *changes-before)
		}
	}
	if err := p.Add("a text"); err == nil {
		t.Error("a text among the pods")
	}
	if err := p.Resync(); err != nil {
		t.Error(err)
	}
}

func TestAPodWhoseNodeCameLaterIsForgottenThen(t *testing.T) {
	known := false
	p := newClusterPods(nil, func(string) []string {
		if known {
			return []string{"10.0.0.0/16"}
		}
		return nil
	}, func() {})
	if err := p.Add(podOn("node-1", "x", "10.0.0.5")); err != nil {
		t.Fatal(err)
	}
	if got := p.list(); len(got) != 1 {
		t.Errorf("before: %v", got)
	}
	known = true
	if got := p.list(); len(got) != 0 || len(p.kept) != 0 {
		t.Errorf("after: %v", got)
	}
}

func TestPodsAreListedAnewOnlyWhenANodeLosesARange(t *testing.T) {
	node := func(cidrs ...string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDRs: cidrs}}
	}
	for name, c := range map[string]struct {
		do   func(p *clusterPods)
		want bool
	}{
		"a new node":                      {func(p *clusterPods) { p.nodeAdded(node("10.0.1.0/24")) }, false},
		"one more range":                  {func(p *clusterPods) { p.compare([]string{"10.0.1.0/24"}, []string{"10.0.2.0/24", "10.0.1.0/24"}) }, false},
		"one range less":                  {func(p *clusterPods) { p.compare([]string{"10.0.2.0/24", "10.0.1.0/24"}, []string{"10.0.1.0/24"}) }, true},
		"gone":                            {func(p *clusterPods) { p.nodeDeleted(node("10.0.1.0/24")) }, false},
		"gone and back":                   {func(p *clusterPods) { p.nodeDeleted(node("10.0.1.0/24")); p.nodeAdded(node("10.0.1.0/24")) }, false},
		"gone and back with other ranges": {func(p *clusterPods) { p.nodeDeleted(node("10.0.1.0/24")); p.nodeAdded(node("10.0.2.0/24")) }, true},
		"more gone than are remembered": {func(p *clusterPods) {
			for i := range maxRemovedNodes + 1 {
				n := node()
				n.Name = fmt.Sprint(i)
				p.nodeDeleted(n)
			}
		}, true},
	} {
		p, _ := podsOfTwoNodes()
		c.do(p)
		if got := len(p.again) == 1; got != c.want {
			t.Errorf("%s: listed anew: %v, want %v", name, got, c.want)
		}
	}
}
