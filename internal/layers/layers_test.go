package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// file is a Go file of the product; tests may import what they like.
type file struct {
	name    string // from the module's root
	pkg     string // the folder, from the module's root
	syntax  *ast.File
	imports []string
}

// files are all files of the module, parsed. Nothing is built, so that the test
// also speaks while another package does not compile.
func files(t *testing.T) (all []file) {
	t.Helper()
	const root = "../.."
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		base := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (base == "testdata" || name != root && strings.HasPrefix(base, ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, "_test.go"):
			return nil
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f := file{name: filepath.ToSlash(relative), syntax: syntax}
		f.pkg = path.Dir(f.name)
		for _, spec := range syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, imported)
		}
		all = append(all, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no file found")
	}
	return all
}

func TestEveryPackageHasALayer(t *testing.T) {
	for _, f := range files(t) {
		if layerOf(f.pkg) < 0 && !within(f.pkg, aside) {
			t.Errorf("%s: %s has no layer; give it one in internal/layers/rules_test.go and in ARCHITECTURE.md", f.name, f.pkg)
		}
	}
}

func TestImportsPointDown(t *testing.T) {
	for _, f := range files(t) {
		for _, imported := range f.imports {
			other, ours := strings.CutPrefix(imported, module)
			switch {
			case !ours || other == f.pkg:
			case within(f.pkg, aside) && within(other, aside):
			case within(f.pkg, aside):
				t.Errorf("%s imports %s: tests and their tools use the product from outside", f.name, other)
			case within(other, aside):
				t.Errorf("%s imports %s: the product does not know its tests", f.name, other)
			case layerOf(other) >= layerOf(f.pkg):
				t.Errorf("%s imports %s: imports point down, and %s stands no lower", f.name, other, other)
			}
		}
	}
}

func TestNoPackageImportsWhatItIsBannedFrom(t *testing.T) {
	for _, f := range files(t) {
		for _, imported := range f.imports {
			for _, b := range bans {
				if b.forbids(imported) && within(f.pkg, b.to) {
					t.Errorf("%s imports %s: %s", f.name, imported, b.why)
				}
			}
		}
	}
}

func TestPurePackagesStartNothingAndReadNoClock(t *testing.T) {
	for _, f := range files(t) {
		if !within(f.pkg, pure) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine: the caller decides what runs at once", f.name)
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok {
					if why := calls[of.Name+"."+n.Sel.Name]; why != "" {
						t.Errorf("%s uses %s.%s: %s", f.name, of.Name, n.Sel.Name, why)
					}
				}
			}
			return true
		})
	}
}
