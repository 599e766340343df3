package config

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// place is the position of a value in a configuration, as a linked list up to the root. Its text is computed only for
// problems. A nil place is the document as a whole.
type place struct {
	parent *place
	name   string // of a field; empty: a list item
	index  int
}

func (p *place) field(name string) *place { return &place{parent: p, name: name} }

func (p *place) item(index int) *place { return &place{parent: p, index: index} }

// String returns the place in the form overlay.nodes[3].vni.
func (p *place) String() string {
	var b strings.Builder
	p.write(&b)
	return b.String()
}

func (p *place) write(b *strings.Builder) {
	if p == nil {
		return
	}
	p.parent.write(b)
	if p.name == "" {
		b.WriteString("[" + strconv.Itoa(p.index) + "]")
		return
	}
	if b.Len() > 0 {
		b.WriteByte('.')
	}
	b.WriteString(p.name)
}

// find returns the node at this place, or the innermost existing node around it.
func (p *place) find(root *yaml.Node) *yaml.Node {
	if p == nil {
		return root
	}
	around := p.parent.find(root)
	switch {
	case around.Kind == yaml.SequenceNode && p.name == "" && p.index < len(around.Content):
		return around.Content[p.index]
	case around.Kind == yaml.MappingNode && p.name != "":
		for i := 0; i < len(around.Content); i += 2 {
			if around.Content[i].Value == p.name {
				return around.Content[i+1]
			}
		}
	}
	return around
}
