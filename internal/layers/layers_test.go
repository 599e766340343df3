package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// file is a Go file of the module.
type file struct {
	name    string // relative to the module's root
	pkg     string // the directory, relative to the module's root
	set     *token.FileSet
	syntax  *ast.File
	imports []string
}

// files returns the files of the product with any build constraints; tests may import any
// package.
func files(t *testing.T) []file {
	t.Helper()
	return goFiles(t, func(name string) bool { return !strings.HasSuffix(name, "_test.go") })
}

// goFiles returns the files of the module whose names are wanted.
func goFiles(t *testing.T, wanted func(name string) bool) (some []file) {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if wanted(f.name) {
			some = append(some, f)
		}
	}
	if len(some) == 0 {
		t.Fatal("no file found")
	}
	return some
}

// parsed returns all files of the module with their comments. Nothing is built, so the
// tests work while another package does not compile.
var parsed = sync.OnceValues(func() (all []file, err error) {
	const root = "../.."
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		base := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (base == "testdata" || name != root && strings.HasPrefix(base, ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(base, ".go"):
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f := file{name: filepath.ToSlash(relative), set: token.NewFileSet()}
		f.pkg = path.Dir(f.name)
		f.syntax, err = parser.ParseFile(f.set, f.name, text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		for _, spec := range f.syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, imported)
		}
		all = append(all, f)
		return nil
	})
	return all, err
})

func TestEveryPackageHasALayer(t *testing.T) {
	t.Parallel()
	for _, f := range files(t) {
		if layerOf(f.pkg) < 0 && !within(f.pkg, aside) {
			t.Errorf("%s: %s has no layer; add it to internal/layers/rules_test.go and in ARCHITECTURE.md", f.name, f.pkg)
		}
	}
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	for _, f := range files(t) {
		for _, imported := range f.imports {
			other, ours := strings.CutPrefix(imported, module)
			switch {
			case !ours || other == f.pkg:
			case within(f.pkg, aside) && within(other, aside):
			case within(other, helped[f.pkg]):
			case within(f.pkg, aside):
				t.Errorf("%s imports %s: the product must not import tests or their tools", f.name, other)
			case within(other, aside):
				t.Errorf("%s imports %s: the product must not import its tests", f.name, other)
			case layerOf(other) >= layerOf(f.pkg):
				t.Errorf("%s imports %s: imports must point to a lower layer, and %s is not lower", f.name, other, other)
			}
		}
	}
}

func TestNoPackageImportsWhatItIsBannedFrom(t *testing.T) {
	t.Parallel()
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

func TestPurePackagesStartNoGoroutineAndReadNoClock(t *testing.T) {
	t.Parallel()
	for _, f := range files(t) {
		if !within(f.pkg, pure) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine: the caller decides what runs concurrently", f.name)
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
