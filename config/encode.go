package config

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// YAML encodes the configuration as a document. Parse decodes a valid one to the same value, except for a ListenAddress
// with port 0, which a document cannot express.
func (g *Gateway) YAML() ([]byte, error) {
	without := *g
	without.Overlay.Nodes = nil
	text, err := encode(&without)
	if err != nil || len(g.Overlay.Nodes) == 0 {
		return text, err
	}
	before, rest, ok := bytes.Cut(text, []byte(afterNodes))
	if !ok {
		return nil, errors.New("config: the document has no part that follows the nodes")
	}
	var b bytes.Buffer
	b.Write(before)
	b.WriteString("\n  nodes:\n")
	for some := range slices.Chunk(g.Overlay.Nodes, nodesAtOnce) {
		part, err := encode(some)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(part) {
			b.WriteString("    ")
			b.Write(line)
		}
	}
	b.WriteString(afterNodes[1:])
	b.Write(rest)
	return b.Bytes(), nil
}

// Nodes are encoded in groups, and are the last field of their object: the encoder keeps everything it has encoded until
// its end, which for 5,000 nodes is 60 MB.
const (
	nodesAtOnce = 20
	afterNodes  = "\nwireguard:\n"
)

func encode(part any) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(part); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

// MarshalText implements encoding.TextMarshaler.
func (l ListenAddress) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// String returns the format used in files.
func (m MSSClamp) String() string {
	switch {
	case m.Off:
		return "off"
	case m.Value != 0:
		return strconv.Itoa(int(m.Value))
	}
	return "auto"
}

// MarshalText implements encoding.TextMarshaler.
func (m MSSClamp) MarshalText() ([]byte, error) { return []byte(m.String()), nil }
