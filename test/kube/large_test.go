//go:build apiserver

package kube

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The API server limits the cost of the validation rules of an object. The length limits of
// lists must keep objects below it.
func TestLargestObjectsAreWithinTheRuleBudget(t *testing.T) {
	seen := func(of, as string) []any {
		return list(64, func(i int) any {
			return map[string]any{"cidr": fmt.Sprintf(of, 0x1000+i), "seenAs": fmt.Sprintf(as, 0x1000+i)}
		})
	}
	podCIDRs := list(1024, func(i int) any { return fmt.Sprintf("fd00:1234:5678:9abc:def0:1234:%x:1000/128", 0x1000+i) })
	for _, row := range []struct {
		resource string
		edits    []edit
	}{
		{"peerings", []edit{
			{"spec.prefixes", seen("fd00:1234:5678:9abc:def0:1234:%x:0/112", "fd01:1234:5678:9abc:def0:1234:%x:0/112")},
			{"spec.externalPrefixes", seen("fd02:1234:5678:9abc:def0:1234:%x:0/112", "fd03:1234:5678:9abc:def0:1234:%x:0/112")},
			{"spec.peers", list(16, func(i int) any {
				return map[string]any{"name": fmt.Sprintf("b-%d", i), "endpoint": "[2001:db8:1234:5678:9abc:def0:1234:5678]:51840",
					"publicKey": fmt.Sprintf("3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+I%02d8=", i), "persistentKeepalive": "18h12m15s"}
			})},
		}},
		{"nodeattachments", []edit{{"spec.podCIDRs", podCIDRs}}},
		{"clusternetworks", []edit{{"spec.podCIDRs", podCIDRs[:64]}, {"spec.reservedCIDRs", podCIDRs[:64]}}},
	} {
		t.Run(row.resource, func(t *testing.T) {
			client := ours(t)(row.resource)
			created, err := create(t, client, sample(t, row.resource, row.edits...))
			must(t, err)
			if row.resource == "clusternetworks" {
				created.Object["status"] = map[string]any{"nodeCIDRs": podCIDRs}
				_, err = client.UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
				must(t, err)
			}
		})
	}
}

func list(n int, item func(i int) any) []any {
	items := make([]any, n)
	for i := range items {
		items[i] = item(i)
	}
	return items
}
