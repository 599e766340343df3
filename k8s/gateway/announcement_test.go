package gateway

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// The remote cluster gets what the status of the Peering says, and hands it to its own
// API server as it was.
func TestAnAnnouncementIsHeardAsItWasMade(t *testing.T) {
	made := v1alpha1.Announcement{
		Revision: 7, ClusterID: "a",
		Prefixes: []v1alpha1.CIDR{"10.0.0.0/16", "fd00:10::/48"}, ExternalPrefixes: []v1alpha1.CIDR{"10.70.0.0/16"},
		Gateways: []v1alpha1.AnnouncedGateway{
			{Name: "b-0", PublicKeys: []v1alpha1.PublicKey{"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=", "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="}, Endpoints: []v1alpha1.Endpoint{"gw.example:51840"}},
			{Name: "b-1", PublicKeys: []v1alpha1.PublicKey{"XcgfvMDKZ8buZIUrAIcmJHgDDB7mGcu7LXzJIdBYdGU="}},
		},
		Offload: &v1alpha1.AnnouncedOffload{
			Lender:   &v1alpha1.OffloadLender{Address: "10.70.1.9", Port: 6097, Fingerprint: v1alpha1.Fingerprint(strings.Repeat("1", 64))},
			Borrower: v1alpha1.Fingerprint(strings.Repeat("2", 64)),
		},
	}
	sent, err := toControl(made, "b-0")
	must(t, err)
	must(t, sent.Validate())
	if heard := fromControl(sent); !reflect.DeepEqual(heard, made) {
		t.Errorf("received %+v, made %+v", heard, made)
	}

	if sent, err = toControl(made, "b-2"); err != nil || len(sent.Gateways) != 0 {
		t.Errorf("a gateway that has no key yet announces %+v (%v)", sent.Gateways, err)
	}
	for i := range 2 * maxEndpoints {
		made.Gateways[1].Endpoints = append(made.Gateways[1].Endpoints, v1alpha1.Endpoint(fmt.Sprintf("192.0.2.%d:51840", i)))
	}
	sent, err = toControl(made, "b-0")
	must(t, err)
	if err := sent.Validate(); err != nil {
		t.Errorf("more endpoints than an announcement has: %v", err)
	}
	made.Prefixes[0] = "10.0.0.0"
	if _, err := toControl(made, "b-0"); err == nil || !strings.Contains(err.Error(), `"10.0.0.0" is not a prefix`) {
		t.Errorf("of a range that is none: %v", err)
	}
}
