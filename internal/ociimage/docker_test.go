package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The Docker build context contains the directories of the program. Without this test a
// missing one would be found only with a Docker daemon.
func TestDockerContextHasAllDirectoriesOfTheProgram(t *testing.T) {
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
		t.Fatalf("the program is built from %v only", folders)
	}
	for folder := range folders {
		if !slices.Contains(shown, "!"+folder) {
			t.Errorf(".dockerignore lacks !%s", folder)
		}
	}
}
