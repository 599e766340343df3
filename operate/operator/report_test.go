package operator

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestStatusSaysHowFarEachPeeringIs(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	must(t, err)
	cases := 0
	for _, file := range files {
		if strings.HasSuffix(file, ".golden.yaml") || filepath.Base(file) == "addresses.yaml" {
			continue
		}
		cases++
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			o := load(t, file)
			r, err := buildReport(o.network, o.peerings, o.reports, nil, noon)
			must(t, err)
			var table strings.Builder
			must(t, Table(&table, r, noon, false))
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden.txt", table.String())
			text, err := json.MarshalIndent(r, "", "  ")
			must(t, err)
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden.json", string(text)+"\n")
		})
	}
	if cases == 0 {
		t.Error("no case found")
	}
}

func TestStatusOfSomePeeringsLeavesTheOthersOut(t *testing.T) {
	o := load(t, "testdata/new.yaml")
	r, err := buildReport(o.network, o.peerings, o.reports, []string{"c"}, noon)
	must(t, err)
	if len(r.Peerings) != 1 || r.Peerings[0].Name != "c" {
		t.Errorf("got %+v", r.Peerings)
	}
	if _, err := buildReport(o.network, o.peerings, o.reports, []string{"d"}, noon); err == nil || err.Error() != "Peering d does not exist; existing Peerings: b, c" {
		t.Errorf("of a Peering that is not there it says %v", err)
	}
}

func TestAConditionOfAnOlderGenerationDoesNotCount(t *testing.T) {
	o := load(t, "testdata/ready.yaml")
	p := &o.peerings[0]
	if peeringReport(o.network, p, o.reports, noon).Ready != true {
		t.Fatal("not ready")
	}
	p.Generation++
	s := peeringReport(o.network, p, o.reports, noon)
	if s.Ready || !strings.Contains(s.Missing, "has not processed Peering prod-b yet") {
		t.Errorf("after a change it says ready %v, %q", s.Ready, s.Missing)
	}
}

func TestStatusCountsImportedServices(t *testing.T) {
	p := &v1alpha1.Peering{Spec: v1alpha1.PeeringSpec{ClusterID: "b"}}
	services := func() string {
		for _, s := range peeringReport(load(t, "testdata/ready.yaml").network, p, nil, noon).Stages {
			if s.Name == "services" {
				return string(s.State) + ": " + s.Message
			}
		}
		return ""
	}
	for _, c := range []struct {
		status *v1alpha1.PeeringServicesStatus
		from   v1alpha1.ImportFrom
		want   string
	}{
		{nil, "", ""},
		{&v1alpha1.PeeringServicesStatus{}, v1alpha1.ImportNone, ""},
		{&v1alpha1.PeeringServicesStatus{}, "", "pending: 0 imported; no gateway receives the exports of the remote cluster"},
		{&v1alpha1.PeeringServicesStatus{Receiver: "b-0", Imported: 3}, "", "reached: 3 imported"},
		{&v1alpha1.PeeringServicesStatus{Receiver: "b-0", Imported: 3, Refused: 1, Failed: 2}, "", "reached: 3 imported, 1 refused, 2 failed; strait services shows why"},
		{&v1alpha1.PeeringServicesStatus{Receiver: "b-0", Imported: 3, Refused: 1}, "", "reached: 3 imported, 1 refused; strait services shows why"},
	} {
		p.Status.Services, p.Spec.Services.ImportFrom = c.status, c.from
		if got := services(); got != c.want {
			t.Errorf("with %+v: %q, want %q", c.status, got, c.want)
		}
	}
}

func TestStatusNamesNodesThatCannotBeAttached(t *testing.T) {
	network := load(t, "testdata/ready.yaml").network.DeepCopy()
	meta.SetStatusCondition(&network.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionNodesAttached, Status: metav1.ConditionFalse, Reason: "NotAttached", Message: "node edge: it has no address"})
	const want = "pod CIDRs 10.0.0.0/16; not all nodes are attached: node edge: it has no address"
	if got := networkStage(network); got.State != Reached || got.Message != want {
		t.Errorf("%+v, want %q", got, want)
	}
}

func TestAgesAreSaidInOneUnit(t *testing.T) {
	for seconds, want := range map[int]string{-5: "0s", 0: "0s", 119: "119s", 120: "2m", 7199: "119m", 7200: "2h", 172799: "47h", 172800: "2d"} {
		if got := age(time.Duration(seconds) * time.Second); got != want {
			t.Errorf("%d s: %s, want %s", seconds, got, want)
		}
	}
}
