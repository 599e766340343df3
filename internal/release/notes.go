package main

import (
	"fmt"
	"regexp"
	"strings"
)

// relative matches the target of a link to a file of the repository.
var relative = regexp.MustCompile(`\]\(([a-zA-Z][^):]*)\)`)

// notesOf returns the section of a version in the changelog, with links to its files.
func notesOf(changelog, version, source string) (string, error) {
	heading := "## [" + strings.TrimPrefix(version, "v") + "]"
	_, section, found := strings.Cut("\n"+changelog, "\n"+heading)
	if !found {
		return "", fmt.Errorf("CHANGELOG.md has no section %q; write what %s changes", heading, version)
	}
	_, section, _ = strings.Cut(section, "\n") // the date
	section, _, _ = strings.Cut(section, "\n## ")
	if strings.TrimSpace(section) == "" {
		return "", fmt.Errorf("section %q of CHANGELOG.md is empty; write what %s changes", heading, version)
	}
	return relative.ReplaceAllString(strings.TrimSpace(section), "](https://"+source+"/blob/"+version+"/$1)") + "\n", nil
}
