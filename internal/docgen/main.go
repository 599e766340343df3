// Command docgen prints the reference of Strait's resources, docs/reference/objects.md,
// from a directory of their CustomResourceDefinitions.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "docgen: missing argument: the directory of the CustomResourceDefinitions, k8s/api/crds")
		os.Exit(2)
	}
	text, err := objects(os.DirFS(os.Args[1]))
	if err == nil {
		_, err = os.Stdout.WriteString(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}
