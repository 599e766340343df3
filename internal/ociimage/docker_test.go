package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Docker is shown the folders that the program is built from. One that is missing would
// be found only where there is a daemon.
func TestDockerIsShownEveryFolderThatTheProgramNeeds(t *testing.T) {
	text, err := os.ReadFile("../../.dockerignore")
	must(t, err)
	shown := strings.Split(string(text), "\n")
	const module = "strait.dev/strait/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"cmd/strait").Output()
	must(t, err)
	folders := make(map[string]bool)
	for pkg := range strings.FieldsSeq(string(out)) {
		if ours, ok := strings.CutPrefix(pkg, module); ok {
			folder, _, _ := strings.Cut(ours, "/")
			folders[folder] = true
		}
	}
	if len(folders) < 5 {
		t.Fatalf("the program is built from %v alone", folders)
	}
	for folder := range folders {
		if !slices.Contains(shown, "!"+folder) {
			t.Errorf(".dockerignore lacks !%s", folder)
		}
	}
}
