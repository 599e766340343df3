package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestObjectReferenceIsCurrent(t *testing.T) {
	want, err := objects(os.DirFS("../../k8s/api/crds"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/reference/objects.md")
	if err != nil || string(got) != want {
		t.Errorf("docs/reference/objects.md is out of date (%v); run: make generate", err)
	}
	for line := range strings.Lines(want) {
		if strings.HasPrefix(line, "| `") && strings.HasSuffix(line, "|  |\n") {
			t.Errorf("a field has no description: %s", line)
		}
	}
	for _, says := range []string{
		"## Peering\n", "| `acceptPrefixes` | list of [AcceptedCIDR](#acceptedcidr) |", "| `gateway.replicas` | integer | ", "Default: `2`", "### Columns of Peering\n", "| WHY | ", "-o wide",
	} {
		if !strings.Contains(want, says) {
			t.Errorf("the reference lacks %q", says)
		}
	}
}

func TestInvalidDefinitionIsReportedWithItsFile(t *testing.T) {
	if _, err := objects(fstest.MapFS{"odd.yaml": {Data: []byte("spec: [")}}); err == nil || !strings.Contains(err.Error(), "odd.yaml") {
		t.Errorf("got %v", err)
	}
}
