package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

const chart = "../../charts/strait"

var example = build{
	version: "1.2.3-rc.1", repository: "ghcr.io/fork/strait", digest: "sha256:" + strings.Repeat("0a", 32), source: "https://github.com/fork/strait",
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// unpack returns the files of an archive by their names.
func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	must(t, err)
	files := make(map[string]string)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		files[h.Name] = string(content)
	}
}

func TestAPackedChartInstallsTheImageOfTheBuild(t *testing.T) {
	t.Parallel()
	archive, err := pack(os.DirFS(chart), example)
	must(t, err)
	files := unpack(t, archive)
	for file, lines := range map[string][]string{
		"Chart.yaml": {
			"version: 1.2.3-rc.1", "appVersion: 1.2.3-rc.1", "sources: [https://github.com/fork/strait]", "      image: ghcr.io/fork/strait:1.2.3-rc.1@" + example.digest,
		},
		"values.yaml": {"  repository: ghcr.io/fork/strait", `  digest: "` + example.digest + `"`},
	} {
		for _, line := range lines {
			if !strings.Contains(files["strait/"+file], "\n"+line+"\n") {
				t.Errorf("%s lacks the line %q", file, line)
			}
		}
	}
	for _, row := range []string{"| `image.repository` | `ghcr.io/fork/strait` |", "| `image.digest` | `\"" + example.digest + "\"` |"} {
		if !strings.Contains(files["strait/README.md"], row) {
			t.Errorf("README.md lacks the row %q", row)
		}
	}
	if _, is := files["strait/templates/node.yaml"]; !is {
		t.Error("the templates are missing")
	}
}

func TestT18_TheSameChartMakesTheSameBytes(t *testing.T) {
	t.Parallel()
	var archives, boms [2][]byte
	for i := range archives {
		out := filepath.Join(t.TempDir(), "strait.tgz")
		must(t, run(out, example, []string{chart}))
		var err error
		archives[i], err = os.ReadFile(out)
		must(t, err)
		boms[i], err = os.ReadFile(out + ".spdx.json")
		must(t, err)
	}
	if !bytes.Equal(archives[0], archives[1]) || !bytes.Equal(boms[0], boms[1]) {
		t.Error("two archives of one chart differ")
	}
	if want := "pkg:oci/strait@sha256%3A" + strings.TrimPrefix(example.digest, "sha256:"); !strings.Contains(string(boms[0]), want) {
		t.Errorf("the bill of materials lacks %s", want)
	}
}

func TestChartsAndArgumentsThatDoNotFitAreRejected(t *testing.T) {
	t.Parallel()
	changed := func(change func(*build)) build {
		b := example
		change(&b)
		return b
	}
	for _, c := range []struct {
		build build
		want  string
	}{
		{changed(func(b *build) { b.version = "v1.2.3" }), `-version "v1.2.3" is not MAJOR.MINOR.PATCH`},
		{changed(func(b *build) { b.digest = "sha256:12" }), "64 hexadecimal digits"},
		{changed(func(b *build) { b.repository = "" }), "missing arguments"},
	} {
		out := filepath.Join(t.TempDir(), "strait.tgz")
		if err := run(out, c.build, []string{chart}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.build, err, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%+v left a file", c.build)
		}
	}
	if _, err := pack(fstest.MapFS{"values.yaml": {Data: []byte("image:\n  repository: x\n")}}, example); err == nil || !strings.Contains(err.Error(), "want one; adapt internal/chartpack") {
		t.Errorf("a chart without a value for the digest: %v", err)
	}
	if _, err := pack(fstest.MapFS{}, example); err == nil || !strings.Contains(err.Error(), "lacks Chart.yaml") {
		t.Errorf("an empty folder: %v", err)
	}
}
