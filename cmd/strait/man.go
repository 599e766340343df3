//go:build man

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"
)

// Built with the tag man, the program writes a man page of each command to the directory that
// is its only argument, and ends. It is not a command of the released program, which would
// then contain cobra's generator and the parser of Markdown that it needs.
func init() {
	root := newRoot()
	if len(os.Args) != 2 {
		fmt.Fprintln(root.ErrOrStderr(), "usage: go run -tags man ./cmd/strait DIRECTORY")
		os.Exit(2)
	}
	root.DisableAutoGenTag = true // the page has no date of its own: cobra reads SOURCE_DATE_EPOCH
	if err := doc.GenManTree(root, &doc.GenManHeader{Source: "strait " + version, Manual: "Strait"}, os.Args[1]); err != nil {
		fmt.Fprintln(root.ErrOrStderr(), "man pages:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
