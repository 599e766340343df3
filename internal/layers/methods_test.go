package layers

import (
	"go/ast"
	"strings"
	"testing"
)

// The types on the path of a packet are small enough to be known in full.
func TestNoTypeOnThePacketPathHasManyMethods(t *testing.T) {
	t.Parallel()
	const most = 25
	methods := map[string]map[string]int{"tun": {}, "underlay": {}, "link": {}, "gateway": {}}
	for _, f := range goFiles(t, func(name string) bool { return !strings.HasSuffix(name, "_test.go") }) {
		of := methods[f.pkg]
		if of == nil {
			continue
		}
		for _, d := range f.syntax.Decls {
			if m, ok := d.(*ast.FuncDecl); ok && m.Recv != nil {
				of[receiverType(m)]++
			}
		}
	}
	for pkg, of := range methods {
		if len(of) == 0 {
			t.Errorf("package %s has no methods: it has another name, or is gone", pkg)
		}
		for name, n := range of {
			if n > most {
				t.Errorf("%s.%s has %d methods, more than %d: give a part of it a type of its own", pkg, name, n, most)
			}
		}
	}
}

// receiverType returns the name of the type that a method belongs to.
func receiverType(m *ast.FuncDecl) string {
	of := m.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	return of.(*ast.Ident).Name
}
