package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed terms.yaml
var termsFile []byte

// terms is terms.yaml; its fields are described there.
type terms struct {
	Skip    []string
	Terms   []*term
	LeftOut []struct{ Term, Why string } `yaml:"leftOut"`
}

type term struct {
	Match  []string
	Except []string
	Names  []string
	Use    string
	Wrong  []string
	Right  []string

	match, except []*regexp.Regexp
	prefix        [][]byte // what match[i] begins with
}

// finding is a wrong word. Lines and columns count from 1, columns in bytes.
type finding struct {
	line, column int
	from, to     int // offsets
	message      string
}

const (
	longest = 200 // bytes that a match may have
	around  = 60  // bytes that an exception may reach beyond a match
)

// readTerms returns the embedded list with its patterns compiled.
func readTerms() (*terms, error) {
	list := &terms{}
	d := yaml.NewDecoder(bytes.NewReader(termsFile))
	d.KnownFields(true)
	if err := d.Decode(list); err != nil {
		return nil, fmt.Errorf("terms.yaml: %w", err)
	}
	spaces := strings.NewReplacer(" ", `\s+`)
	for _, t := range list.Terms {
		for _, pattern := range beginnings(t.Match) {
			pattern = spaces.Replace(pattern)
			prefix, _ := regexp.MustCompile(pattern).LiteralPrefix()
			t.prefix = append(t.prefix, []byte(prefix))
			t.match = append(t.match, regexp.MustCompile(`^(?:`+pattern+`)\b`))
		}
		for _, pattern := range t.Except {
			t.except = append(t.except, regexp.MustCompile(`\b(?:`+spaces.Replace(pattern)+`)`))
		}
	}
	return list, nil
}

// beginnings splits patterns that begin with alternatives, so that each begins with a literal.
func beginnings(patterns []string) []string {
	var all []string
	for _, pattern := range patterns {
		group, rest, isGroup := strings.Cut(strings.TrimPrefix(pattern, "("), ")")
		if !isGroup || pattern[0] != '(' || strings.Contains(group, "(") || strings.HasPrefix(rest, "?") {
			all = append(all, pattern)
			continue
		}
		for _, beginning := range strings.Split(group, "|") {
			all = append(all, beginning+rest)
		}
	}
	return all
}

func (l *terms) skips(path string) bool {
	path = filepath.ToSlash(path)
	return slices.ContainsFunc(l.Skip, func(pattern string) bool {
		whole, _ := filepath.Match(pattern, path)
		base, _ := filepath.Match(pattern, filepath.Base(path))
		return whole || base
	})
}

// check returns the findings in a file, in the order of the text.
func (l *terms) check(path string, source []byte) []finding {
	text, names := prose(path, source)
	text = lower(text)
	words := make([][]string, len(names))
	for i, name := range names {
		words[i] = parts(name.name)
	}
	var found []finding
	add := func(offset int, word string, t *term) {
		before := source[:offset]
		found = append(found, finding{
			line:    1 + bytes.Count(before, []byte("\n")),
			column:  offset - bytes.LastIndexByte(before, '\n'),
			from:    offset,
			to:      offset + len(word),
			message: fmt.Sprintf("%q: use %s", strings.Join(strings.Fields(word), " "), t.Use),
		})
	}
	for _, t := range l.Terms {
		for _, m := range t.find(text) {
			add(m[0], string(text[m[0]:m[1]]), t)
		}
		if len(t.Names) == 0 {
			continue
		}
		for i, name := range names {
			forbidden := func(word string) bool { return slices.Contains(t.Names, word) }
			if slices.ContainsFunc(words[i], forbidden) && !slices.Contains(t.Except, name.name) {
				add(name.offset, name.name, t)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b finding) int { return a.from - b.from })
	return slices.CompactFunc(found, func(a, b finding) bool { return a.from < b.to }) // one finding for each word
}

// find returns where the term is in a text in lower case: beginning and end. Exceptions are not among them.
func (t *term) find(text []byte) [][2]int {
	var found [][2]int
	for i, re := range t.match {
		for at := 0; at < len(text); at++ {
			next := bytes.Index(text[at:], t.prefix[i])
			if next < 0 {
				break
			}
			at += next
			if at > 0 && isWord(text[at-1]) {
				continue
			}
			if m := re.FindIndex(text[at:min(len(text), at+longest)]); m != nil && !t.excepts(text, at, at+m[1]) {
				found = append(found, [2]int{at, at + m[1]})
			}
		}
	}
	return found
}

// excepts reports whether an exception matches at or around the word at text[from:to].
func (t *term) excepts(text []byte, from, to int) bool {
	start := max(0, from-around)
	near := text[start:min(len(text), to+around)]
	return slices.ContainsFunc(t.except, func(re *regexp.Regexp) bool {
		return slices.ContainsFunc(re.FindAllIndex(near, -1), func(m []int) bool {
			return m[0]+start < to && m[1]+start > from
		})
	})
}

var wordOfName = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// parts returns the words of an identifier, in lower case: heardAt is heard and at.
func parts(name string) []string {
	all := wordOfName.FindAllString(name, -1)
	for i := range all {
		all[i] = strings.ToLower(all[i])
	}
	return all
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// lower returns a text with the letters A to Z in lower case, of the same length.
func lower(text []byte) []byte {
	low := bytes.Clone(text)
	for i, c := range low {
		if 'A' <= c && c <= 'Z' {
			low[i] = c + 'a' - 'A'
		}
	}
	return low
}
