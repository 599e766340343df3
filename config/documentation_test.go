package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The documents that show a whole configuration.
var documents = []string{"../docs/how-to/standalone-gateway.md", "../docs/reference/configuration.md"}

var example = regexp.MustCompile("(?s)```yaml\n(apiVersion: .*?)```")

func TestExamplesInTheDocumentationAreValid(t *testing.T) {
	t.Parallel()
	for _, name := range documents {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := example.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s: no example", name)
		}
		for _, e := range found {
			if err := check(e[1]); err != nil {
				t.Errorf("%s: an example: %v", name, err)
			}
		}
	}
}

func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, all := range []string{valid(t), proxying(t), "wireguard: {ordinal: 0, replicas: 2}"} {
		var document yaml.Node
		if err := yaml.Unmarshal([]byte(all), &document); err != nil {
			t.Fatal(err)
		}
		eachField(document.Content[0], "", func(field string) {
			if !strings.Contains(string(text), "| `"+field+"` |") {
				t.Errorf("docs/reference/configuration.md has no line for %s", field)
			}
		})
	}
}

// eachField visits the fields that hold a value or a list, by names such as
// overlay.nodes[].vni.
func eachField(n *yaml.Node, name string, visit func(string)) {
	switch {
	case n.Kind == yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			eachField(n.Content[i+1], strings.TrimPrefix(name+"."+n.Content[i].Value, "."), visit)
		}
		return
	case n.Kind == yaml.SequenceNode && n.Content[0].Kind == yaml.MappingNode:
		for _, item := range n.Content {
			eachField(item, name+"[]", visit)
		}
	}
	visit(name)
}
