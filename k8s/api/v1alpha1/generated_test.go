//go:build apiserver

package v1alpha1_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestGeneratedFilesAreWhatTheTypesSay(t *testing.T) {
	objects, definitions := t.TempDir(), t.TempDir()
	generate := exec.CommandContext(t.Context(), "go", "tool", "-modfile=../../../tools/go.mod", "controller-gen", "object", "crd", "paths=.",
		"output:object:dir="+objects, "output:crd:dir="+definitions)
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", generate.Args, err, out)
	}
	same(t, objects, ".", "zz_generated.*.go")
	same(t, definitions, "../crds", "*.yaml")
}

// same checks that two directories contain the same files that match a pattern.
func same(t *testing.T, fresh, committed, pattern string) {
	t.Helper()
	files := make(map[string]bool)
	for _, dir := range []string{fresh, committed} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			files[filepath.Base(path)] = true
		}
	}
	if len(files) == 0 {
		t.Errorf("%s: no file found", pattern)
	}
	for name := range files {
		want, wantErr := os.ReadFile(filepath.Join(fresh, name))
		got, gotErr := os.ReadFile(filepath.Join(committed, name))
		if wantErr != nil || gotErr != nil || !bytes.Equal(want, got) {
			t.Errorf("%s differs from what is generated from the types; run: go generate ./k8s/...", filepath.Join(committed, name))
		}
	}
}
