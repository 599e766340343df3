package preflight

import (
	"encoding/json"
	"strings"
	"testing"

	"strait.dev/strait/operate/findings"
)

func TestAnEnvironmentNamesPartsAndNothingThatIdentifiesTheCluster(t *testing.T) {
	t.Parallel()
	f := ordinary()
	f.nodes[0].Spec.ProviderID = "aws:///eu-central-1a/i-0abc"
	f.nodes[0].Status.NodeInfo.OSImage, f.nodes[0].Status.NodeInfo.KernelVersion = "Amazon Linux 2023", "6.1.1"
	f.nodes[0].Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.1"
	all := []findings.Finding{
		findings.New("STRAIT-N003", findings.Error, "a, node n1", "UDP 6091 on 192.0.2.1"),
		findings.New("STRAIT-N003", findings.OK, "a, node n2", "free"),
		findings.New("STRAIT-C002", findings.OK, "a", "v1.36.3"),
	}
	b, err := json.Marshal(f.describe("0.1.0", all))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"strait":"0.1.0","kubernetes":"v1.36.3","networkPlugin":"kindnet","providers":{"aws":1},"systems":{"Amazon Linux 2023":1},` +
		`"kernels":{"6.1.1":1},"runtimes":{"containerd://2.1":1},"architectures":{"amd64":1},"ipFamilies":["IPv4"],"podCIDRsFrom":"",` +
		`"findingsByCode":{"STRAIT-C002":"ok","STRAIT-N003":"error"}}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	for _, secret := range []string{"n1", "eu-central", "i-0abc", "192.0.2", "10.0.0.0"} {
		if strings.Contains(string(b), secret) {
			t.Errorf("it contains %q", secret)
		}
	}
}

func TestAnEnvironmentOfAClusterThatMayNotBeReadIsUnknown(t *testing.T) {
	t.Parallel()
	f := &facts{name: "a", version: "v1.36.3"}
	if e := f.describe("0.1.0", nil); e.NetworkPlugin != "unknown" || e.PodCIDRsFrom != "unknown" || len(e.IPFamilies) != 0 {
		t.Errorf("got %+v", e)
	}
}
