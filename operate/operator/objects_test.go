package operator

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files anew")

// noon is when all that needs a time is looked at.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// objects are those of a file.
type objects struct {
	network  *v1alpha1.ClusterNetwork
	peerings []v1alpha1.Peering
	reports  []v1alpha1.GatewayReport
	nodes    []v1alpha1.NodeAttachment
	mappings []v1alpha1.AddressMapping
}

func load(t testing.TB, file string) (o objects) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var kind struct{ Kind string }
		must(t, yaml.Unmarshal(document, &kind))
		switch kind.Kind {
		case "ClusterNetwork":
			o.network = new(v1alpha1.ClusterNetwork)
			must(t, yaml.UnmarshalStrict(document, o.network))
		case "Peering":
			var p v1alpha1.Peering
			must(t, yaml.UnmarshalStrict(document, &p))
			o.peerings = append(o.peerings, p)
		case "GatewayReport":
			var r v1alpha1.GatewayReport
			must(t, yaml.UnmarshalStrict(document, &r))
			o.reports = append(o.reports, r)
		case "NodeAttachment":
			var n v1alpha1.NodeAttachment
			must(t, yaml.UnmarshalStrict(document, &n))
			o.nodes = append(o.nodes, n)
		case "AddressMapping":
			var m v1alpha1.AddressMapping
			must(t, yaml.UnmarshalStrict(document, &m))
			o.mappings = append(o.mappings, m)
		default:
			t.Fatalf("%s holds a %q", file, kind.Kind)
		}
	}
	return o
}

// golden compares a text with that in a file.
func golden(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if got != string(want) {
		t.Errorf("got\n%s\nwant, in %s,\n%s", got, file, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
