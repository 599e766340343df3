//go:build e2e || nightly

package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"strait.dev/strait/test/nodes"
	"strait.dev/strait/test/wait"
)

// everything returns what an installation could leave in both clusters and on their nodes:
// objects, links, routes, rules, nftables.
func (w *world) everything(t *testing.T) (map[string]bool, error) {
	t.Helper()
	all := make(map[string]bool)
	for name, c := range map[string]*nodes.Cluster{"a": w.a, "b": w.b} {
		there, err := objects(t, c)
		if err != nil {
			return nil, fmt.Errorf("objects of cluster %s: %w", name, err)
		}
		for _, object := range there {
			all[name+": "+object] = true
		}
		for number := 1; number <= c.Nodes(); number++ {
			there, err := network(t, c, number)
			if err != nil {
				return nil, fmt.Errorf("%s-node-%d: %w", name, number, err)
			}
			for _, thing := range there {
				all[fmt.Sprintf("%s-node-%d: %s", name, number, thing)] = true
			}
		}
	}
	return all, nil
}

// nothingIsLeft waits until nothing exists that did not exist before.
func (w *world) nothingIsLeft(t *testing.T, before map[string]bool) {
	t.Helper()
	eventually(t, "nothing is left", func() error {
		now, err := w.everything(t)
		if err != nil {
			return err // resource types being deleted are discovered but cannot be listed
		}
		maps.DeleteFunc(now, func(thing string, _ bool) bool { return before[thing] })
		if len(now) > 0 {
			return fmt.Errorf("leftovers:\n%s", strings.Join(slices.Sorted(maps.Keys(now)), "\n"))
		}
		return nil
	})
}

// passing are resource types whose objects change without an installation.
var passing = []string{"events", "leases", "endpointslices", "endpoints", "ipaddresses", "componentstatuses"}

// ofKubernetes matches what Kubernetes creates in each new namespace after a while, and the
// accounts of its own controllers, which are created minutes after the cluster, when each
// is first active; and pods of CoreDNS, which tests restart.
var ofKubernetes = regexp.MustCompile(`^(serviceaccounts \S+/default|configmaps \S+/kube-root-ca\.crt|serviceaccounts kube-system/\S+|pods kube-system/coredns-\S+)$`)

func objects(t *testing.T, c *nodes.Cluster) (all []string, err error) {
	t.Helper()
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(c.Admin()).ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(c.Admin())
	must(t, err)
	for _, list := range kinds {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		must(t, err)
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") || slices.Contains(passing, kind.Name) {
				continue
			}
			found, err := client.Resource(group.WithResource(kind.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", kind.Name, err)
			}
			for _, object := range found.Items {
				if one := strings.TrimSpace(fmt.Sprintf("%s %s/%s", kind.Name, object.Namespace, object.Name)); !ofKubernetes.MatchString(one) {
					all = append(all, one)
				}
			}
		}
	}
	return all, nil
}

// ofPods matches lines about pods and Services: their links, the bridge that is created
// with the first pod, kube-proxy's tables.
var ofPods = regexp.MustCompile(`\b(veth[0-9a-f]+|cni0|kube-proxy)\b`)

func network(t *testing.T, c *nodes.Cluster, number int) (all []string, err error) {
	t.Helper()
	for _, command := range []string{
		"ip -br link", "ip route show table all", "ip -6 route show table all", "ip rule", "ip -6 rule", "nft list tables", "bridge fdb",
	} {
		out, err := c.OnNode(t, number, strings.Fields(command)...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", command, err, out)
		}
		for line := range strings.Lines(out) {
			if !ofPods.MatchString(line) {
				all = append(all, command+": "+strings.Join(strings.Fields(line), " "))
			}
		}
	}
	return all, nil
}

// eventually waits for a condition, without its own time limit.
func eventually(t *testing.T, what string, done func() error) {
	t.Helper()
	var err error
	defer func() {
		if err != nil {
			t.Logf("%s: %v", what, err)
		}
	}()
	wait.Until(t, what, func() bool {
		if err = done(); err != nil {
			time.Sleep(250 * time.Millisecond) // each attempt starts programs
		}
		return err == nil
	})
}
