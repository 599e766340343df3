// Command prose reports words that Strait's text does not use, and commit subjects of the wrong form.
//
//	go run ./internal/prose [PATH...]           check files and folders; the whole tree by default
//	go run ./internal/prose -commits [A..B]     check the subjects of commits
//
// terms.yaml is the list of words, with what to write instead. Go files are checked in comments, in strings of more
// than one word, and in the names that they declare; Markdown outside of code and addresses; other text as a whole.
// Each finding is a line FILE:LINE:COLUMN: MESSAGE. The exit code is 1 if there are findings, and 2 if it cannot check.
package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	commits := flag.Bool("commits", false, "check commit subjects, of the range A..B if one is given")
	flag.Parse()
	check := checkFiles
	if *commits {
		check = checkCommits
	}
	found, err := check(os.Stdout, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	if found > 0 {
		fmt.Fprintf(os.Stderr, "prose: %d findings\n", found)
		os.Exit(1)
	}
}

// checkFiles writes the findings in the named files and folders, by default the working directory, and returns their
// number. An error means that a file cannot be read.
func checkFiles(w io.Writer, paths []string) (int, error) {
	list, err := readTerms()
	if err != nil {
		return 0, err
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	found := 0
	for _, root := range paths {
		err := filepath.WalkDir(filepath.Clean(strings.TrimSuffix(root, "/...")), func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case list.skips(path) && e.IsDir():
				return fs.SkipDir
			case e.IsDir() || list.skips(path) || !e.Type().IsRegular():
				return nil
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, f := range list.check(path, source) {
				fmt.Fprintf(w, "%s:%d:%d: %s\n", path, f.line, f.column, f.message)
				found++
			}
			return nil
		})
		if err != nil {
			return found, err
		}
	}
	return found, nil
}
