package dns

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type token struct {
	text       string // without quotes
	start, end int    // the bytes of the Corefile that contain it
	line       int    // where it begins, from 1
	lastLine   int    // where it ends: only quoted words have several lines
}

// lex returns the words of a Corefile as CoreDNS reads them: separated by white space,
// quoted if they begin with a quotation mark, and without comments.
func lex(text string) (all []token) {
	const byteOrderMark = "\uFEFF"
	line, i := 1, 0
	if strings.HasPrefix(text, byteOrderMark) {
		i = len(byteOrderMark)
	}
	for i < len(text) {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '#':
			i += lineEnd(text[i:])
		case unicode.IsSpace(r):
			if r == '\n' {
				line++
			}
			i += size
		case r == '"':
			t, complete := quoted(text, i, line)
			if complete || t.text != "" { // as CoreDNS reads an unterminated quotation
				all = append(all, t)
			}
			i, line = t.end, t.lastLine
		default:
			var t token
			t, i = word(text, i, line)
			all = append(all, t)
		}
	}
	return all
}

// lineEnd returns the offset of the first line break, or the length of the text.
func lineEnd(text string) int {
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return i
	}
	return len(text)
}

// quoted returns the word in quotation marks at an offset, and whether the closing one is
// present.
func quoted(text string, start, line int) (t token, complete bool) {
	t = token{start: start, line: line, lastLine: line}
	var b strings.Builder
	escaped := false
	for i := start + 1; i < len(text); i++ {
		c := text[i]
		if c == '\n' {
			t.lastLine++
		}
		switch {
		case escaped:
			if c != '"' {
				b.WriteByte('\\') // only quotation marks are escaped
			}
			b.WriteByte(c)
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			t.text, t.end = b.String(), i+1
			return t, true
		default:
			b.WriteByte(c)
		}
	}
	t.text, t.end = b.String(), len(text)
	return t, false
}

// word returns the unquoted word at an offset, and the offset after it. As CoreDNS does, it
// drops the part from a # on and all carriage returns.
func word(text string, start, line int) (t token, next int) {
	t = token{start: start, end: -1, line: line, lastLine: line}
	i := start
	for i < len(text) {
		r, size := utf8.DecodeRuneInString(text[i:])
		if unicode.IsSpace(r) && r != '\r' {
			break
		}
		if r == '#' && t.end < 0 {
			t.end = i
		}
		i += size
	}
	if t.end < 0 {
		t.end = i
	}
	t.end = t.start + len(strings.TrimRight(text[t.start:t.end], "\r"))
	t.text = strings.ReplaceAll(text[t.start:t.end], "\r", "")
	return t, i
}

type serverBlock struct {
	keys    []token // its addresses
	plugins []*directive
}

type directive struct {
	name        token
	arguments   []token
	open, close *token    // its braces; nil: none
	properties  [][]token // the lines between the braces
	odd         bool      // it continues in a way that no plugin reads
}

type corefile struct {
	blocks  []serverBlock // without snippets
	imports []string      // files that are imported outside of server blocks
}

// parse returns the structure of a Corefile. Imports are not followed.
func parse(text string) (*corefile, error) {
	p := &parser{tokens: lex(text)}
	for p.i < len(p.tokens) {
		if err := p.block(); err != nil {
			return nil, fmt.Errorf("line %d: %w", p.tokens[min(p.i, len(p.tokens)-1)].line, err)
		}
	}
	return &p.corefile, nil
}

type parser struct {
	corefile
	tokens []token
	i      int // the next one
}

// newLine reports whether a token is on another line than the one before it.
func (p *parser) newLine(i int) bool {
	return i == 0 || p.tokens[i-1].lastLine < p.tokens[i].line
}

// rest returns the remaining tokens of a line, from the i-th on.
func (p *parser) rest(i int) []token {
	end := i
	for end < len(p.tokens) && !p.newLine(end) {
		end++
	}
	return p.tokens[i:end]
}

// block reads a server block, a snippet or an import.
func (p *parser) block() error {
	if p.tokens[p.i].text == "import" {
		line := p.rest(p.i + 1)
		if len(line) != 1 {
			return fmt.Errorf("import has %d arguments; it takes one file", len(line))
		}
		p.imports = append(p.imports, line[0].text)
		p.i += 2
		return nil
	}
	keys, err := p.keys()
	if err != nil {
		return err
	}
	if len(keys) == 1 && strings.HasPrefix(keys[0].text, "(") && strings.HasSuffix(keys[0].text, ")") {
		return p.skipBraces()
	}
	p.i++ // the brace
	b := serverBlock{keys: keys}
	for ; p.i < len(p.tokens); p.i++ {
		switch p.tokens[p.i].text {
		case "}":
			p.i++
			p.blocks = append(p.blocks, b)
			return nil
		case "import":
			p.i += len(p.rest(p.i + 1))
		default:
			d, err := p.directive()
			if err != nil {
				return err
			}
			b.plugins = append(b.plugins, d)
		}
	}
	return fmt.Errorf("the server block of %s is not closed", keys[0].text)
}

// keys reads the addresses of a server block up to its opening brace.
func (p *parser) keys() (keys []token, err error) {
	for more := true; p.i < len(p.tokens); p.i++ {
		t := p.tokens[p.i]
		switch {
		case t.text == "{" && len(keys) > 0:
			return keys, nil
		case t.text == "{" || t.text == "}":
			return nil, fmt.Errorf("%s where the address of a server block is expected", t.text)
		case !more && p.newLine(p.i):
			return nil, fmt.Errorf("the server block of %s has no braces; enclose its plugins in braces", keys[0].text)
		}
		t.text, more = strings.CutSuffix(t.text, ",")
		keys = append(keys, t)
	}
	return nil, fmt.Errorf("the server block of %s has no plugins", keys[0].text)
}

// skipBraces skips a block in braces, with those in it.
func (p *parser) skipBraces() error {
	depth := 0
	for ; p.i < len(p.tokens); p.i++ {
		switch p.tokens[p.i].text {
		case "{":
			depth++
		case "}":
			depth--
		}
		if depth == 0 {
			p.i++
			return nil
		}
	}
	return fmt.Errorf("the block is not closed")
}

// directive reads the directive at p.i up to its last token.
func (p *parser) directive() (*directive, error) {
	d := &directive{name: p.tokens[p.i]}
	depth := 0
	for ; p.i+1 < len(p.tokens); p.i++ {
		next := p.i + 1
		t := &p.tokens[next]
		switch {
		case t.text == "{":
			depth++
			if depth > 1 || d.open != nil || p.newLine(next) {
				d.odd = true
			} else {
				d.open = t
				continue
			}
		case depth == 0 && p.newLine(next):
			return d, nil
		case t.text == "}" && depth == 0:
			return nil, fmt.Errorf("} after %s without an opening brace", d.name.text)
		case t.text == "}":
			if depth--; depth == 0 && d.close == nil {
				d.odd = d.odd || !p.newLine(next)
				d.close = t
				continue
			}
		}
		switch {
		case d.open == nil:
			d.arguments = append(d.arguments, *t)
		case d.close != nil:
			d.odd = true
		case p.newLine(next) || len(d.properties) == 0:
			d.odd = d.odd || !p.newLine(next)
			d.properties = append(d.properties, []token{*t})
		default:
			last := len(d.properties) - 1
			d.properties[last] = append(d.properties[last], *t)
		}
	}
	if depth > 0 {
		return nil, fmt.Errorf("the block of %s is not closed", d.name.text)
	}
	return d, nil
}
