package config

import (
	"bytes"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// YAML is the configuration as a document. Parse reads a valid one back as it was,
// but for a ListenAddress with port 0, which a document cannot ask for.
func (g *Gateway) YAML() ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(g); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

// MarshalText implements encoding.TextMarshaler.
func (l ListenAddress) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// String is the form used in files.
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
