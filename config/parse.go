package config

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxSize is the maximum size in bytes of a document: about twenty times that of 5,000 nodes with 100,000 prefixes.
const MaxSize = 64 << 20

// source is the text a Gateway was parsed from.
type source struct{ text string }

// Parse decodes one YAML document and fills in defaults. It is strict: unknown and repeated fields, more than one
// document, aliases and values of the wrong type are errors. The error is a Problems with everything found. The Gateway
// keeps no reference to data.
//
// Parse checks types, not meaning: call Validate before using the result.
func Parse(data []byte) (*Gateway, error) {
	if len(data) > MaxSize {
		return nil, Problems{{Text: fmt.Sprintf("%d bytes are too many", len(data)),
			Remedy: fmt.Sprintf("keep the configuration under %d bytes", MaxSize)}}
	}
	s := &source{string(data)}
	root, err := s.tree()
	if err != nil {
		return nil, err
	}
	g := &Gateway{source: s}
	d := decoder{fields: make(map[reflect.Type][]field)}
	d.object(value{node: root}, reflect.ValueOf(g).Elem())
	if len(d.problems) > 0 {
		return nil, d.problems
	}
	return g, nil
}

// tree returns the document as nodes, with aliases unresolved.
func (s *source) tree() (*yaml.Node, error) {
	if !utf8.ValidString(s.text) {
		return nil, s.encodingProblem()
	}
	decoder := yaml.NewDecoder(strings.NewReader(s.text))
	var document, next yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) || err == nil && document.Content[0].ShortTag() == "!!null" {
		return nil, Problems{{Line: 1, Column: 1, Text: "the file is empty",
			Remedy: "begin with apiVersion: " + APIVersion}}
	}
	if err != nil {
		return nil, s.syntaxProblem(err)
	}
	switch err := decoder.Decode(&next); {
	case err == nil:
		return nil, Problems{{Line: next.Line, Column: next.Column, Text: "a second document begins here",
			Remedy: "put each configuration in a file of its own"}}
	case !errors.Is(err, io.EOF):
		return nil, s.syntaxProblem(err)
	}
	return document.Content[0], nil
}

// encodingProblem returns a problem for the first line that is not UTF-8. YAML also allows UTF-16, but here that is
// more likely a mistake.
func (s *source) encodingProblem() Problems {
	line := 1
	for text := range strings.Lines(s.text) {
		if !utf8.ValidString(text) {
			break
		}
		line++
	}
	return Problems{{Line: line, Column: 1, Text: "not UTF-8 text", Remedy: "save the file as UTF-8"}}
}

// position matches the position in errors of the YAML package, which is approximate.
var position = regexp.MustCompile(`^yaml: (line \d+: )?`)

// syntaxProblem converts an error of the YAML package, with the line at which reading stopped.
func (s *source) syntaxProblem(err error) Problems {
	lines := &lineReader{text: s.text}
	decoder := yaml.NewDecoder(lines)
	for decoder.Decode(new(yaml.Node)) == nil {
	}
	return Problems{{Line: lines.line(), Column: 1, Text: "not valid YAML: " + position.ReplaceAllString(err.Error(), ""),
		Remedy: "check indentation, colons and quotes on this line and above"}}
}

// lineReader returns at most one line per read, so that its position is the line that the YAML package reads.
type lineReader struct {
	text string
	done int // bytes returned
}

func (r *lineReader) Read(b []byte) (int, error) {
	if r.done == len(r.text) {
		return 0, io.EOF
	}
	line := r.text[r.done:]
	if end := strings.IndexByte(line, '\n'); end >= 0 {
		line = line[:end+1]
	}
	n := copy(b, line)
	r.done += n
	return n, nil
}

// line returns the number of the line last returned, from 1.
func (r *lineReader) line() int {
	return strings.Count(r.text[:max(r.done-1, 0)], "\n") + 1
}
