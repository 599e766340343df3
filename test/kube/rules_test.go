//go:build apiserver

package kube

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/crds"
)

// broken is an object that the API server must reject, and its complete message after `KIND
// "NAME" is invalid: `.
type broken struct {
	name     string
	resource string
	edits    []edit
	says     string
}

// with returns one edit.
func with(path string, value any) []edit { return []edit{{path, value}} }

var allBroken = slices.Concat(brokenRanges, brokenAddresses, brokenNames, brokenPeers, brokenWholes)

// forbidden are forbidden changes of the samples.
var forbidden = []broken{
	{"the remote cluster of a peering", "peerings", with("spec.clusterID", "c"),
		`spec.clusterID: Invalid value: the cluster of a peering is immutable: delete the peering and create one for the other cluster`},
	{"the remote cluster removed", "peerings", with("spec.clusterID", nil),
		`spec.clusterID: Invalid value: the cluster of a peering is immutable: delete the peering and create one for the other cluster`},
	{"the node of borrowed resources", "peerings", with("spec.borrow.nodeName", "other"),
		`spec.borrow.nodeName: Invalid value: the name of the node is immutable: remove spec.borrow, and set it again with another name`},
	{"an old generation of keys", "peerings", with("spec.gateway.keyGeneration", int64(1)),
		`spec.gateway.keyGeneration: Invalid value: 1: cannot decrease: old keys are not used again; increment it to rotate keys`},
	{"the cluster ID", "clusternetworks", with("spec.clusterID", "c"),
		`spec.clusterID: Invalid value: ` + newID},
	{"the cluster ID removed", "clusternetworks", with("spec.clusterID", nil),
		`spec.clusterID: Invalid value: ` + newID},
	{"the index of a node", "nodeattachments", with("spec.index", int64(2)),
		`spec.index: Invalid value: 2: the index is immutable because gateways know the node by it: delete this object, and the controller creates it again`},
	{"what a claim is for", "addressclaims", with("spec.for", nil),
		`spec: Invalid value: a claim cannot change: create a new claim, and delete this one when nothing uses it`},
}

func TestInvalidObjectsAreRejectedWithARemedy(t *testing.T) {
	client := ours(t)
	for _, row := range allBroken {
		t.Run(row.name, func(t *testing.T) {
			object := sample(t, row.resource, row.edits...)
			_, err := create(t, client(row.resource), object)
			row.check(t, object.GetName(), err)
		})
	}
}

func TestForbiddenChangesAreRejectedWithARemedy(t *testing.T) {
	client := ours(t)
	for _, row := range forbidden {
		t.Run(row.name, func(t *testing.T) {
			created, err := create(t, client(row.resource), sample(t, row.resource))
			must(t, err)
			changed := sample(t, row.resource, row.edits...)
			changed.SetResourceVersion(created.GetResourceVersion())
			_, err = client(row.resource).Update(t.Context(), changed, metav1.UpdateOptions{})
			row.check(t, changed.GetName(), err)
		})
	}
}

// check compares the API server's message about the broken object.
func (b broken) check(t *testing.T, name string, err error) {
	t.Helper()
	want := kinds[b.resource] + `.strait.dev "` + name + `" is invalid: ` + b.says
	switch {
	case err == nil:
		t.Errorf("accepted; want the error\n%s", want)
	case !sameError(err.Error(), want):
		t.Errorf("got\n%s\nwant\n%s", err, want)
	}
}

// sameError reports whether the error of the API server is the wanted one. Those of other versions than
// the usual one name the types of values instead of the values, word limits otherwise, and have more
// errors about one mistake.
func sameError(is, want string) bool {
	if Version() == "" {
		return is == want
	}
	for _, of := range []struct {
		pattern *regexp.Regexp
		text    string
	}{
		{regexp.MustCompile(`Invalid value: (?:(?:"(?:[^"\\]|\\.)*"|-?[0-9]+|null): )?`), "Invalid value: "},
		{regexp.MustCompile(`may not be (?:longer than ([0-9]+)|more than ([0-9]+) bytes)`), "may not be longer than $1$2"},
		{regexp.MustCompile(`Duplicate value: map\[string\]interface \{\}\{`), "Duplicate value: {"},
	} {
		is, want = of.pattern.ReplaceAllString(is, of.text), of.pattern.ReplaceAllString(want, of.text)
	}
	about, wanted, _ := strings.Cut(want, " is invalid: ")
	return strings.HasPrefix(is, about) && strings.Contains(is, strings.Trim(wanted, "[]"))
}

// A rule has a message or, if that is computed, an expression that contains it.
func TestEveryValidationRuleHasARow(t *testing.T) {
	var said strings.Builder
	for _, row := range slices.Concat(allBroken, forbidden) {
		said.WriteString(row.says + "\n")
	}
	said.WriteString(unbound + notItsPeering + notItsService)
	files, err := fs.Glob(crds.Files, "*.yaml")
	must(t, err)
	rules := 0
	for _, file := range files {
		text, err := fs.ReadFile(crds.Files, file)
		must(t, err)
		var definition any
		must(t, yaml.Unmarshal(text, &definition))
		for _, message := range messages(definition) {
			rules++
			if !strings.Contains(said.String(), message) {
				t.Errorf("%s: no row tests the rule with the message %q", file, message)
			}
		}
	}
	if rules == 0 {
		t.Error("no rule found")
	}
}

// messages returns the messages of all rules in a schema.
func messages(schema any) (all []string) {
	switch schema := schema.(type) {
	case map[string]any:
		rules, _ := schema["x-kubernetes-validations"].([]any)
		for _, rule := range rules {
			message, _ := rule.(map[string]any)["message"].(string)
			all = append(all, message)
		}
		for _, value := range schema {
			all = append(all, messages(value)...)
		}
	case []any:
		for _, value := range schema {
			all = append(all, messages(value)...)
		}
	}
	return all
}
