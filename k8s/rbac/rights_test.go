package rbac_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// golden has the rights of each program. The API server writes it; see
// TestT5_EachProgramHasTheseRightsAndNoOthers.
const golden = "testdata/rights.golden"

// Rights that no program of Strait may ever have, whatever the golden file contains.
func TestT5_NoRuleGrantsWhatNoProgramNeeds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	reads := []string{"get", "list", "watch"}
	where := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, " ") {
			where = line
			continue
		}
		fields := strings.Fields(line)
		verb, resource, name := fields[0], fields[1], fields[2]
		read := slices.Contains(reads, verb)
		pod := resource == "/pods" || strings.HasPrefix(resource, "/pods/")
		switch {
		case strings.Contains(line, "*"),
			verb == "impersonate" || verb == "bind" || verb == "escalate",
			pod && (!read || resource == "/pods/exec") && // to get exec is to run a command
				(where != "strait-controller may in strait-gateways:" ||
					line != "  patch /pods/status (any)" && // for the readiness gate
						line != "  delete /pods (any)"), // of lost nodes
			(resource == "/nodes" || strings.HasPrefix(resource, "/nodes/")) && !read,
			resource == "/secrets" && (read || !strings.Contains(where, "in strait-gateways")),
			resource == "coordination.k8s.io/leases" && verb != "create" && name == "(any)",
			strings.HasPrefix(resource, "rbac.authorization.k8s.io/"), strings.HasPrefix(resource, "apiextensions.k8s.io/"):
			t.Errorf("%s\n%s", where, line)
		}
	}
	if where == "" {
		t.Errorf("%s is empty", golden)
	}
}
