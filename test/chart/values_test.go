package chart

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// table matches the table of values in the README.
var table = regexp.MustCompile(`(?s)\| value \| default \| description \|\n.*?\n\n`)

// The README describes the values as values.yaml does.
func TestReadmeListsEveryValue(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	must(t, err)
	var root yaml.Node
	must(t, yaml.Unmarshal(text, &root))
	var rows strings.Builder
	rows.WriteString("| value | default | description |\n|---|---|---|\n")
	list(t, &rows, "", root.Content[0])
	rows.WriteString("\n")
	path := filepath.Join(folder, "README.md")
	was, err := os.ReadFile(path)
	must(t, err)
	want := table.ReplaceAllLiteral(was, []byte(rows.String()))
	if *update {
		must(t, os.WriteFile(path, want, 0o644))
	} else if !bytes.Equal(was, want) || !table.Match(was) {
		t.Errorf("the table of %s differs from values.yaml; run the test with -update", path)
	}
}

// list writes a row for each value, with the comment above it. A value on several lines is
// a group of values, unless it is in a group and has a comment.
func list(t *testing.T, rows *strings.Builder, path string, group *yaml.Node) {
	for i := 0; i < len(group.Content); i += 2 {
		name, value := path+group.Content[i].Value, group.Content[i+1]
		comment := strings.Join(strings.Fields(strings.ReplaceAll("\n"+group.Content[i].HeadComment, "\n#", " ")), " ")
		lines := value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle == 0
		if lines && (path == "" || comment == "") {
			list(t, rows, name+".", value)
			continue
		}
		if comment == "" {
			t.Errorf("values.yaml has no comment on %s", name)
		}
		fmt.Fprintf(rows, "| `%s` | `%s` | %s |\n", name, inline(t, value), strings.ReplaceAll(comment, "|", `\|`))
	}
}

// inline formats a value on one line.
func inline(t *testing.T, value *yaml.Node) string {
	t.Helper()
	flow(value)
	text, err := yaml.Marshal(value)
	must(t, err)
	return strings.TrimSpace(string(text))
}

func flow(value *yaml.Node) {
	value.Style |= yaml.FlowStyle
	value.HeadComment, value.LineComment, value.FootComment = "", "", ""
	for _, inner := range value.Content {
		if inner.Kind != yaml.ScalarNode {
			flow(inner)
		} else {
			inner.HeadComment, inner.LineComment, inner.FootComment = "", "", ""
		}
	}
}
