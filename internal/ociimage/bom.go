package main

import (
	"fmt"

	"strait.dev/strait/internal/sbom"
)

// bomOf returns the bill of materials of a program: the modules linked into it.
func bomOf(b *goProgram, version string, licences map[string]string) []byte {
	path := b.info.Main.Path
	return sbom.Describe(sbom.Subject{
		Title: fmt.Sprintf("strait-%s-%s-%s", version, b.platform.OS, b.platform.Architecture),
		Name:  path, Version: version, Purl: "pkg:golang/" + path + "@" + version, Purpose: "APPLICATION",
		Content: b.content, Made: b.made,
	}, sbom.Modules(b.info, licences))
}
