package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// name is an identifier that a Go file declares.
type name struct {
	name   string
	offset int
}

// code replaces what is not prose. No pattern matches it, so that no finding reaches across it.
const code = 0

// prose returns the text of a file that people read, in which everything else is code, byte by byte: offsets are those
// of the file. Of Go files it returns also the names declared. Generated files and files that are not text have no prose.
func prose(path string, source []byte) ([]byte, []name) {
	switch {
	case generated.Match(source[:min(len(source), 2000)]), bytes.IndexByte(source, 0) >= 0:
		return nil, nil
	case filepath.Ext(path) == ".go":
		return goProse(path, source)
	case filepath.Ext(path) == ".md":
		return blank(source, markdownCode), nil
	}
	text := blank(source, codeSpan, address, quotedWord)
	return blank(text, commentMark), nil
}

var (
	generated    = regexp.MustCompile(`(?m)^(// |# )?Code generated .* DO NOT EDIT\.$`)
	codeSpan     = regexp.MustCompile("``.+?``|`[^`\n]+`")
	address      = regexp.MustCompile(`\bhttps?://[^\s)>\]"]+`)
	quotedWord   = regexp.MustCompile(`["“'][^\s"”']+["”']`) // a word that the text speaks about
	commentMark  = regexp.MustCompile(`(?m)^[ \t]*(//|#)`)   // of all lines of a comment, for what spans lines
	markdownCode = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```[ \t]*$|^[ \t]*~~~.*?^[ \t]*~~~[ \t]*$" +
		`|<!--.*?-->|\]\([^)\s]*\)|` + codeSpan.String() + `|` + address.String() + `|` + quotedWord.String())
	directive = regexp.MustCompile(`^//(go:|nolint|line |export )`)
)

// blank returns a text in which what a pattern matches is code. Of comment marks it makes spaces instead.
func blank(text []byte, patterns ...*regexp.Regexp) []byte {
	text = bytes.Clone(text)
	for _, re := range patterns {
		with := byte(code)
		if re == commentMark {
			with = ' '
		}
		for _, m := range re.FindAllIndex(text, -1) {
			fill(text[m[0]:m[1]], with)
		}
	}
	return text
}

func fill(text []byte, with byte) {
	for i := range text {
		text[i] = with
	}
}

// goProse returns the comments and strings of a Go file, and the names that it declares.
func goProse(path string, source []byte) ([]byte, []name) {
	text := make([]byte, len(source)) // code
	set := token.NewFileSet()
	file, _ := parser.ParseFile(set, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if file == nil {
		return text, nil
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	show := func(from int, part []byte) { copy(text[from:], part) }

	for _, group := range file.Comments {
		end := at(group.Pos())
		for _, c := range group.List {
			from := at(c.Pos())
			fill(text[end:from], ' ') // a sentence goes on in the next line
			end = from + len(c.Text)
			if !directive.MatchString(c.Text) {
				part := blank([]byte(c.Text), codeSpan, address, quotedWord)
				fill(part[:2], ' ')
				show(from, part)
			}
		}
	}
	var names []name
	tags := map[*ast.BasicLit]bool{}
	declare := func(ids ...*ast.Ident) {
		for _, id := range ids {
			names = append(names, name{id.Name, at(id.Pos())})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			declare(n.Names...)
			tags[n.Tag] = true
		case *ast.FuncDecl:
			declare(n.Name)
		case *ast.TypeSpec:
			declare(n.Name)
		case *ast.ValueSpec:
			declare(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					if id, isName := e.(*ast.Ident); isName {
						declare(id)
					}
				}
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && !tags[n] && strings.ContainsAny(n.Value, " \n") {
				from := at(n.Pos())
				part := []byte(n.Value)
				if part[0] == '"' {
					part = escape.ReplaceAll(part, []byte("  "))
				}
				part = blank(part, address)
				part[0], part[len(part)-1] = code, code
				show(from, blank(part, codeSpan, quotedWord))
			}
		}
		return true
	})
	return text, names
}

var escape = regexp.MustCompile(`\\[nt]`)
