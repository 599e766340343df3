package main

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// definition is the documented part of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Group string
		Names struct {
			Kind       string
			Plural     string
			ShortNames []string
		}
		Scope    string
		Versions []struct {
			Name                     string
			AdditionalPrinterColumns []struct {
				Name, JSONPath string
				Priority       int
			}
			Schema struct{ OpenAPIV3Schema schema }
		}
	}
}

// schema is one value in an object.
type schema struct {
	Description          string
	Type, Format         string
	Properties           map[string]*schema
	AdditionalProperties *schema
	Items                *schema
	Required             []string
	Enum                 []any
	Default              any
	Minimum, Maximum     *float64
	MaxItems             *int
	IntOrString          bool `json:"x-kubernetes-int-or-string"`
	Validations          []struct {
		Message string
		Rule    string
	} `json:"x-kubernetes-validations"`
}

// page is the reference being written.
type page struct {
	strings.Builder
	types map[string]*schema // named types of list items
}

func objects(folder fs.FS) (string, error) {
	files, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return "", err
	}
	p := &page{types: map[string]*schema{}}
	p.WriteString("# Objects\n\nGenerated from the CustomResourceDefinitions by `make generate`. In a cluster, `kubectl explain peering.spec` prints the same text.\n\n" +
		"An empty list means none, never any. The API server validates single objects by the rules listed here; there is no webhook. The controller checks rules that involve several objects, and reports violations in conditions.\n")
	var kinds []definition
	for _, file := range files {
		text, err := fs.ReadFile(folder, file)
		if err != nil {
			return "", err
		}
		var d definition
		if err := yaml.Unmarshal(text, &d); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		for _, v := range d.Spec.Versions {
			p.collect(&v.Schema.OpenAPIV3Schema)
		}
		kinds = append(kinds, d)
	}
	for i := range kinds {
		p.kind(&kinds[i])
	}
	p.WriteString("\n## Types\n\n| type | description | rules |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(p.types)) {
		t := p.types[name]
		fmt.Fprintf(p, "| <a id=\"%s\"></a>`%s` | %s | %s |\n", strings.ToLower(name), name, cell(t.Description), cell(strings.Join(t.rules(), "; ")))
	}
	return p.String(), nil
}

// collect finds the named types: list items whose description starts with a name.
func (p *page) collect(s *schema) {
	if s.Items != nil {
		if name, _, ok := strings.Cut(s.Items.Description, " "); ok && s.Items.Type == "string" && len(s.Items.Validations) > 0 {
			p.types[name] = s.Items
		}
		p.collect(s.Items)
	}
	for _, field := range s.Properties {
		p.collect(field)
	}
}

// named returns the link to a type that has the rules of this value, or "".
func (p *page) named(s *schema) string {
	for name, t := range p.types {
		if len(s.Validations) > 0 && s.Type == t.Type && slices.Equal(s.rules(), t.rules()) {
			return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
		}
	}
	return ""
}

func (p *page) kind(d *definition) {
	for _, v := range d.Spec.Versions {
		root := &v.Schema.OpenAPIV3Schema
		fmt.Fprintf(p, "\n## %s\n\n`%s/%s`, `kubectl get %s`", d.Spec.Names.Kind, d.Spec.Group, v.Name, d.Spec.Names.Plural)
		if len(d.Spec.Names.ShortNames) > 0 {
			fmt.Fprintf(p, " or `%s`", strings.Join(d.Spec.Names.ShortNames, "`, `"))
		}
		fmt.Fprintf(p, ", scope `%s`\n\n%s\n", d.Spec.Scope, oneLine(root.Description))
		p.ruleList(root)
		for _, part := range []string{"spec", "status"} {
			if s := root.Properties[part]; s != nil {
				fmt.Fprintf(p, "\n### %s.%s\n\n| field | type | description |\n|---|---|---|\n", d.Spec.Names.Kind, part)
				p.fields("", s)
				p.ruleList(s)
			}
		}
		fmt.Fprintf(p, "\n### Columns of %s\n\n| column | from |\n|---|---|\n", d.Spec.Names.Kind)
		for _, c := range v.AdditionalPrinterColumns {
			wide := ""
			if c.Priority > 0 {
				wide = ", with `-o wide`"
			}
			fmt.Fprintf(p, "| %s | `%s`%s |\n", c.Name, c.JSONPath, wide)
		}
	}
}

func (p *page) ruleList(s *schema) {
	for i, rule := range s.rules() {
		if i == 0 {
			p.WriteByte('\n')
		}
		fmt.Fprintf(p, "- Rule: %s\n", rule)
	}
}

// fields writes the rows of an object's fields, recursively.
func (p *page) fields(path string, of *schema) {
	for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
		s, at := of.Properties[name], path+name
		about := oneLine(s.Description)
		if slices.Contains(of.Required, name) {
			about = strings.TrimSpace(about + " Required.")
		}
		if s.Default != nil && s.Type != "object" {
			about += fmt.Sprintf(" Default: `%v`.", s.Default)
		}
		if limits := s.limits(); limits != "" {
			about += " " + limits + "."
		}
		if rules := s.rules(); len(rules) > 0 && p.typeOf(s) == s.Type {
			about += " Rules: " + strings.Join(rules, "; ") + "."
		}
		fmt.Fprintf(p, "| `%s` | %s | %s |\n", at, p.typeOf(s), cell(about))
		switch {
		case name == "conditions": // the same as in Kubernetes' own objects
		case s.Properties != nil:
			p.fields(at+".", s)
		case s.Items != nil && s.Items.Properties != nil:
			p.fields(at+"[].", s.Items)
		}
	}
}

func (p *page) typeOf(s *schema) string {
	switch {
	case s.Items != nil && s.Items.Properties == nil:
		return "list of " + p.typeOf(s.Items)
	case s.Items != nil:
		return "list of objects"
	case p.named(s) != "":
		return p.named(s)
	case s.IntOrString:
		return "integer or string"
	case len(s.Enum) > 0:
		var all []string
		for _, e := range s.Enum {
			all = append(all, fmt.Sprintf("`%v`", e))
		}
		return strings.Join(all, ", ")
	case s.AdditionalProperties != nil:
		return "map of " + p.typeOf(s.AdditionalProperties)
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

func (s *schema) limits() string {
	var all []string
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		all = append(all, fmt.Sprintf("%.0f to %.0f", *s.Minimum, *s.Maximum))
	case s.Minimum != nil:
		all = append(all, fmt.Sprintf("%.0f or more", *s.Minimum))
	case s.Maximum != nil:
		all = append(all, fmt.Sprintf("%.0f at most", *s.Maximum))
	}
	if s.MaxItems != nil {
		all = append(all, fmt.Sprintf("%d at most", *s.MaxItems))
	}
	if len(all) > 0 {
		all[0] = strings.ToUpper(all[0][:1]) + all[0][1:]
	}
	return strings.Join(all, ", ")
}

// rules returns the API server's messages for rejected values.
func (s *schema) rules() (all []string) {
	for _, v := range s.Validations {
		text := oneLine(v.Message)
		if text == "" {
			text = "`" + v.Rule + "`"
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// cell escapes text for a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(oneLine(text))
}
