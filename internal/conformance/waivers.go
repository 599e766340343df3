package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"slices"
)

// The lab lists the WireGuard scenarios that do not apply to a gateway, with the reasons:
// in a map from their numbers.
const (
	waiversPath = "test/lab/netnswaived_test.go"
	waiversName = "netnsWaived"
)

// waivers returns that map: reasons by ID.
func waivers(root fs.FS) (map[string]string, error) {
	source, err := fs.ReadFile(root, waiversPath)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, waiversPath, source, 0)
	if err != nil {
		return nil, err
	}
	var reasons map[string]string
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Names[0].Name != waiversName || len(v.Values) != 1 {
			return true
		}
		literal, ok := v.Values[0].(*ast.CompositeLit)
		if !ok {
			return true
		}
		reasons = make(map[string]string)
		for _, e := range literal.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				reasons["Netns"+constantOf(files, pair.Key)] = constantOf(files, pair.Value)
			}
		}
		return false
	})
	if reasons == nil {
		return nil, fmt.Errorf("%s: no map %s; add one, empty if nothing is waived", waiversPath, waiversName)
	}
	return reasons, nil
}

// constantOf returns the value of a constant expression: a number, or a string of several
// parts.
func constantOf(files *token.FileSet, e ast.Expr) string {
	text := types.ExprString(e)
	v, err := types.Eval(files, nil, token.NoPos, text)
	if err != nil || v.Value == nil {
		return text
	}
	if v.Value.Kind() == constant.String {
		return constant.StringVal(v.Value)
	}
	return v.Value.ExactString()
}

// waive adds the reasons to the rows. sections is not modified.
func waive(sections []section, reasons map[string]string) []section {
	sections = slices.Clone(sections)
	for i := range sections {
		s := &sections[i]
		s.rows = slices.Clone(s.rows)
		for j := range s.rows {
			if reason, ok := reasons[s.rows[j].id]; ok {
				s.rows[j].waived = reason
			}
		}
	}
	return sections
}
