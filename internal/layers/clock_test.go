package layers

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Tests of the core tier depend on no clock except that of testing/synctest, so a slow
// machine makes none of them fail.
func TestCoreTestsReadNoClockOutsideOfVirtualTime(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		if inCore(t, f.syntax) && f.pkg != "test/wait" {
			for _, use := range clockUses(f.set, f.syntax) {
				t.Error(use)
			}
		}
	}
}

// slowTiers are the build tags of tests outside of the core tier.
var slowTiers = []string{"apiserver", "lab", "e2e", "nightly"}

// virtualTime marks a function that is called only inside synctest.Test.
const virtualTime = "//strait:virtualtime"

const (
	useBubble  = "run the test in synctest.Test, or give a helper of such tests the directive " + virtualTime
	useEvent   = "wait for a channel or with wait.Until of strait.dev/strait/test/wait, or " + useBubble
	useContext = "use t.Context(), since go test -timeout ends a test that hangs, or " + useBubble
	useBlock   = "block without a deadline, since go test -timeout ends a test that hangs, or " + useBubble
	useNightly = "count operations instead, or move the measurement to a file with //go:build nightly, or " + useBubble
)

// clocks are the banned functions by import path, with the remedy.
var clocks = map[string]map[string]string{
	"time": {
		"Sleep": useEvent, "After": useEvent, "Tick": useEvent,
		"AfterFunc": useBubble, "NewTimer": useBubble, "NewTicker": useBubble,
		"Since": useNightly, "Until": useNightly,
	},
	"context": {
		"WithTimeout": useContext, "WithTimeoutCause": useContext, "WithDeadline": useContext, "WithDeadlineCause": useContext,
	},
}

// deadlines are the banned methods, unless their argument is time.Time{}.
var deadlines = []string{"SetDeadline", "SetReadDeadline", "SetWriteDeadline"}

// inCore reports whether a file can be built without the tags of the slow tiers.
func inCore(t *testing.T, f *ast.File) bool {
	t.Helper()
	for _, group := range f.Comments {
		for _, comment := range group.List {
			if comment.Pos() > f.Package || !constraint.IsGoBuild(comment.Text) {
				continue
			}
			x, err := constraint.Parse(comment.Text)
			if err != nil {
				t.Fatal(err)
			}
			return canBe(x, true)
		}
	}
	return true
}

// canBe reports whether a constraint can have the value without the tags of the slow tiers
// and with any others.
func canBe(x constraint.Expr, value bool) bool {
	switch x := x.(type) {
	case *constraint.NotExpr:
		return canBe(x.X, !value)
	case *constraint.AndExpr:
		if value {
			return canBe(x.X, true) && canBe(x.Y, true)
		}
		return canBe(x.X, false) || canBe(x.Y, false)
	case *constraint.OrExpr:
		if value {
			return canBe(x.X, true) || canBe(x.Y, true)
		}
		return canBe(x.X, false) && canBe(x.Y, false)
	case *constraint.TagExpr:
		return !value || !slices.Contains(slowTiers, x.Tag)
	}
	return true
}

// clockUses returns the uses of the real clock in a file that was parsed with its comments:
// file and line, function and remedy.
func clockUses(set *token.FileSet, f *ast.File) (found []string) {
	report := func(at ast.Node, what, remedy string) {
		p := set.Position(at.Pos())
		found = append(found, fmt.Sprintf("%s:%d: %s depends on the real clock: %s", p.Filename, p.Line, what, remedy))
	}
	imported := make(map[string]string) // path by name
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // rejected by the parser
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." && clocks[path] != nil {
			report(spec, "the dot import of "+path, "import it by its name, so that its functions can be checked")
		}
		imported[name] = path
	}
	// member returns the import path and the name that a selector refers to.
	member := func(x ast.Expr) (path, name string) {
		if s, ok := x.(*ast.SelectorExpr); ok {
			if of, ok := s.X.(*ast.Ident); ok {
				return imported[of.Name], s.Sel.Name
			}
		}
		return "", ""
	}
	isZeroTime := func(x ast.Expr) bool {
		literal, ok := x.(*ast.CompositeLit)
		if !ok || len(literal.Elts) > 0 {
			return false
		}
		path, name := member(literal.Type)
		return path == "time" && name == "Time"
	}
	var inspect func(ast.Node) bool
	inspect = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return !isVirtual(n)
		case *ast.CallExpr:
			if path, name := member(n.Fun); path == "testing/synctest" && name == "Test" {
				for _, argument := range n.Args {
					if _, bubble := argument.(*ast.FuncLit); !bubble {
						ast.Inspect(argument, inspect)
					}
				}
				return false
			}
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(deadlines, s.Sel.Name) && !(len(n.Args) == 1 && isZeroTime(n.Args[0])) {
				report(s.Sel, s.Sel.Name, useBlock)
			}
		case *ast.SelectorExpr:
			path, name := member(n)
			if remedy := clocks[path][name]; remedy != "" {
				report(n, path+"."+name, remedy)
			}
		}
		return true
	}
	ast.Inspect(f, inspect)
	return found
}

// isVirtual reports whether a function is called only inside synctest.Test.
func isVirtual(f *ast.FuncDecl) bool {
	return f.Doc != nil && slices.ContainsFunc(f.Doc.List, func(c *ast.Comment) bool { return c.Text == virtualTime })
}

func TestUsesOfTheRealClockAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, source string
		want         []string // line, and what is found
	}{
		{"each function of time", `import "time"
var _ = time.Sleep
func f() {
	time.Sleep(1)
	<-time.After(1)
	time.AfterFunc(1, f)
	time.NewTimer(1)
	time.NewTicker(1)
	<-time.Tick(1)
	time.Since(time.Now())
	time.Until(time.Now())
	g(time.Now(), time.Second)
}`, []string{"3 time.Sleep", "5 time.Sleep", "6 time.After", "7 time.AfterFunc", "8 time.NewTimer", "9 time.NewTicker", "10 time.Tick", "11 time.Since", "12 time.Until"}},
		{"each function of context", `import "context"
func f(ctx context.Context) {
	context.WithTimeout(ctx, 1)
	context.WithTimeoutCause(ctx, 1, nil)
	context.WithDeadline(ctx, at)
	context.WithDeadlineCause(ctx, at, nil)
	context.WithCancel(ctx)
	context.AfterFunc(ctx, nil)
}`, []string{"4 context.WithTimeout", "5 context.WithTimeoutCause", "6 context.WithDeadline", "7 context.WithDeadlineCause"}},
		{"deadlines", `import "time"
func f() {
	conn.SetDeadline(time.Now())
	conn.SetReadDeadline(at)
	conn.SetWriteDeadline(time.Time{}.Add(1))
	conn.SetDeadline(time.Time{})
	conn.SetReadDeadline(time.Time{})
	conn.SetWriteDeadline(time.Time{})
}
func (c conn) SetReadDeadline(time.Time) error { return nil }`, []string{"4 SetDeadline", "5 SetReadDeadline", "6 SetWriteDeadline"}},
		{"a renamed import", `import clock "time"
func f() { clock.Sleep(1) }`, []string{"3 time.Sleep"}},
		{"dot imports", `import . "time"
import . "context"`, []string{"2 the dot import of time", "3 the dot import of context"}},
		{"another package of that name", `import "example.com/time"
func f() { time.Sleep(1) }`, nil},
		{"methods of other values", `func f() { x.After(y); x.time.Sleep(1); Sleep(1) }`, nil},
		{"bubbles", `import ("time"; "testing/synctest")
func Test(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(1)
		conn.SetDeadline(time.Now())
		func() { time.Sleep(1) }()
	})
	time.Sleep(1)
	synctest.Test(after(t, time.After(1)), named)
}`, []string{"9 time.Sleep", "10 time.After"}},
		{"another package's bubbles", `import ("time"; synctest "example.com/other")
func Test(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { time.Sleep(1) })
}`, []string{"4 time.Sleep"}},
		{"nested helpers", `import "time"
func f() {
	help := func() { func() { time.Sleep(1) }() }
	t.Run("", func(t *testing.T) { time.Sleep(1) })
	help()
}`, []string{"4 time.Sleep", "5 time.Sleep"}},
		{"marked helpers", `import "time"
// f waits.
//
//strait:virtualtime
func f() { time.Sleep(1) }

//strait:virtualtime
func (x) f() { time.Sleep(1) }

// strait:virtualtime
func g() { time.Sleep(1) }
`, []string{"12 time.Sleep"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, "seeded_test.go", "package seeded\n"+c.source, parser.SkipObjectResolution|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			found := clockUses(set, f)
			if len(found) != len(c.want) {
				t.Fatalf("found %d, want %d:\n%s", len(found), len(c.want), strings.Join(found, "\n"))
			}
			for i, want := range c.want {
				line, what, _ := strings.Cut(want, " ")
				if begin := fmt.Sprintf("seeded_test.go:%s: %s depends on the real clock: ", line, what); !strings.HasPrefix(found[i], begin) || found[i] == begin {
					t.Errorf("found %q, want %q and a remedy", found[i], begin)
				}
			}
		})
	}
}

func TestBuildTagsDecideWhatIsInTheCore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                                 true,
		"//go:build linux\n":               true,
		"//go:build !race\n":               true,
		"//go:build !lab\n":                true,
		"//go:build lab || linux\n":        true,
		"//go:build lab\n":                 false,
		"//go:build apiserver\n":           false,
		"//go:build e2e\n":                 false,
		"//go:build nightly\n":             false,
		"//go:build lab || nightly\n":      false,
		"//go:build lab && !race\n":        false,
		"//go:build !(linux || !lab)\n":    false,
		"// a comment\n\n//go:build lab\n": false,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", text+"\npackage seeded\n//go:build lab\n", parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if got := inCore(t, f); got != want {
			t.Errorf("%q: in the core is %v, want %v", text, got, want)
		}
	}
}
