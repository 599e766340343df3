package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/internal/archive"
	"strait.dev/strait/internal/sbom"
)

const version = "v0.1.0"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// built returns the options of a release with programs that were built for it: one for this
// machine and one for Windows.
func built(t *testing.T) options {
	t.Helper()
	o := options{out: t.TempDir(), version: version, source: "github.com/fork/strait", programs: t.TempDir(), man: t.TempDir()}
	for _, platform := range []string{runtime.GOOS + "-" + runtime.GOARCH, "windows-arm64"} {
		p := program{}
		p.system, p.architecture, _ = strings.Cut(platform, "-")
		build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w",
			"-o", filepath.Join(o.programs, platform, p.name()), "./internal/release/testdata/small")
		build.Env = append(build.Environ(), "CGO_ENABLED=0", "GOOS="+p.system, "GOARCH="+p.architecture)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", build.Args, err, out)
		}
	}
	must(t, os.WriteFile(filepath.Join(o.man, "strait.1"), []byte(".TH STRAIT\n"), 0o644))
	return o
}

// read returns the files of a directory.
func read(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must(t, err)
	files := make(map[string][]byte)
	for _, e := range entries {
		files[e.Name()], err = os.ReadFile(filepath.Join(folder, e.Name()))
		must(t, err)
	}
	return files
}

func TestT18_TwoReleasesOfATreeAreTheSameBytes(t *testing.T) {
	t.Chdir("../..")
	var releases [2]map[string][]byte
	for i := range releases {
		o := built(t) // in other directories
		must(t, os.WriteFile(filepath.Join(o.out, "strait-0.1.0.tgz"), []byte("a chart"), 0o644))
		must(t, run(o))
		releases[i] = read(t, o.out)
	}
	first := releases[0]
	for name, content := range first {
		if !bytes.Equal(content, releases[1][name]) {
			t.Errorf("%s differs", name)
		}
	}
	here := "strait-0.1.0-" + runtime.GOOS + "-" + runtime.GOARCH + ".tar.gz"
	want := []string{"RELEASE-NOTES.md", "SHA256SUMS", "strait-0.1.0-windows-arm64.zip", "strait-0.1.0-windows-arm64.zip.spdx.json", "strait-0.1.0.tgz", "strait.yaml", here, here + ".spdx.json"}
	if got := slices.Sorted(maps.Keys(first)); !slices.Equal(got, slices.Sorted(slices.Values(want))) || len(releases[1]) != len(first) {
		t.Fatalf("the release has %q, want %q", got, want)
	}
	shared := []string{"LICENSE", "completions/_strait", "completions/strait.bash", "completions/strait.fish", "completions/strait.ps1", "man/man1/strait.1"}
	checkFiles(t, here, untar(t, first[here]), append(shared, "strait"))
	checkFiles(t, "the zip", unzip(t, first["strait-0.1.0-windows-arm64.zip"]), append(shared, "strait.exe"))

	for line := range strings.Lines(string(first["SHA256SUMS"])) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if sum != archive.Sum(first[name]) {
			t.Errorf("SHA256SUMS has another sum of %s", name)
		}
	}
	if lines := strings.Count(string(first["SHA256SUMS"]), "\n"); lines != len(want)-1 {
		t.Errorf("SHA256SUMS has %d lines", lines)
	}
	var bom sbom.Document
	must(t, json.Unmarshal(first[here+".spdx.json"], &bom))
	if p := bom.Packages[0]; p.File != here || p.Sums[0].Value != archive.Sum(first[here]) || bom.Packages[1].Name != "stdlib" {
		t.Errorf("the bill of materials of %s is about %+v", here, bom.Packages)
	}
	for _, part := range []string{
		"version: v0.1.0\n", "{os: windows, arch: arm64}", "uri: https://github.com/fork/strait/releases/download/v0.1.0/strait-0.1.0-windows-arm64.zip",
		"sha256: " + archive.Sum(first[here]), "bin: strait.exe",
	} {
		if !strings.Contains(string(first["strait.yaml"]), part) {
			t.Errorf("the manifest for krew lacks %q:\n%s", part, first["strait.yaml"])
		}
	}
}

func checkFiles(t *testing.T, of string, files map[string]os.FileMode, want []string) {
	t.Helper()
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("%s contains %q, want %q", of, got, want)
	}
	for name, mode := range files {
		if runs := strings.HasPrefix(name, "strait"); runs != (mode&0o111 != 0) {
			t.Errorf("%s: %s has the mode %o", of, name, mode)
		}
	}
}

// untar returns the modes of the files in an archive.
func untar(t *testing.T, archive []byte) map[string]os.FileMode {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	must(t, err)
	files := make(map[string]os.FileMode)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		files[h.Name] = os.FileMode(h.Mode)
	}
}

func unzip(t *testing.T, archive []byte) map[string]os.FileMode {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	must(t, err)
	files := make(map[string]os.FileMode)
	for _, f := range r.File {
		files[f.Name] = f.Mode()
	}
	return files
}

func TestNotesAreTheSectionOfTheVersionWithLinksToItsFiles(t *testing.T) {
	t.Parallel()
	changelog := "# Changelog\n\n## [0.2.0] - unreleased\n\n- later\n\n## [0.1.0] - 2026-01-01\n\n- [a page](docs/a.md#b), [elsewhere](https://example.com)\n\n## [0.0.1]\n\n- earlier\n"
	got, err := notesOf(changelog, version, "github.com/fork/strait")
	must(t, err)
	if want := "- [a page](https://github.com/fork/strait/blob/v0.1.0/docs/a.md#b), [elsewhere](https://example.com)\n"; got != want {
		t.Errorf("notes are %q, want %q", got, want)
	}
	for _, c := range []struct{ version, want string }{{"v0.3.0", `no section "## [0.3.0]"`}, {"v0.0.2", "no section"}} {
		if _, err := notesOf(changelog, c.version, "x"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.version, err, c.want)
		}
	}
	if _, err := notesOf("## [0.1.0]\n\n## [0.0.1]\n", version, "x"); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("an empty section: %v", err)
	}
}

func TestReleasesThatLackAPartAreRejected(t *testing.T) {
	t.Chdir("../..")
	whole := built(t)
	for _, c := range []struct {
		name   string
		change func(*options)
		want   string
	}{
		{"no version", func(o *options) { o.version = "0.1.0" }, "is not vMAJOR.MINOR.PATCH"},
		{"no notes", func(o *options) { o.version = "v9.9.9" }, "has no section"},
		{"no programs", func(o *options) { o.programs = t.TempDir() }, "build them first, with make release"},
		{"no man pages", func(o *options) { o.man = t.TempDir() }, "has no man page"},
		{"a program of another platform", func(o *options) {
			o.programs = t.TempDir()
			must(t, os.CopyFS(o.programs, os.DirFS(whole.programs)))
			must(t, os.Rename(filepath.Join(o.programs, "windows-arm64"), filepath.Join(o.programs, "windows-amd64")))
		}, "it is built with GOARCH=arm64"},
		{"a wrong name", func(o *options) {
			o.programs = t.TempDir()
			must(t, os.CopyFS(o.programs, os.DirFS(whole.programs)))
			must(t, os.Rename(filepath.Join(o.programs, "windows-arm64/strait.exe"), filepath.Join(o.programs, "windows-arm64/strait")))
		}, "the program for windows is strait.exe"},
	} {
		o := whole
		o.out = t.TempDir()
		c.change(&o)
		if err := run(o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if _, err := os.Stat(filepath.Join(o.out, sumsFile)); err == nil {
			t.Errorf("%s: there are checksums", c.name)
		}
	}
}

// The name of the image, the address of the source and the packages to download follow from
// one variable.
func TestAForkSetsOneVariable(t *testing.T) {
	t.Parallel()
	plan := exec.CommandContext(t.Context(), "make", "-n", "dist", "image", "VERSION="+version, "SOURCE=github.com/fork/strait")
	plan.Dir = "../.."
	out, err := plan.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", plan.Args, err, out)
	}
	for _, part := range []string{
		"k8s/install.Image=ghcr.io/fork/strait:0.1.0\"", "-name ghcr.io/fork/strait:0.1.0 -source https://github.com/fork/strait", "-repository ghcr.io/fork/strait ",
		"-version v0.1.0 -source github.com/fork/strait",
	} {
		if !strings.Contains(string(out), part) {
			t.Errorf("make lacks %q:\n%s", part, out)
		}
	}
	if strings.Contains(string(out), "strait.dev/strait:") {
		t.Errorf("make names another repository:\n%s", out)
	}
}

// `go install PACKAGE@VERSION` refuses a module with such directives.
func TestTheModuleCanBeInstalledByItsPath(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../go.mod")
	must(t, err)
	if found := regexp.MustCompile(`(?m)^(replace|exclude)\b.*`).Find(text); found != nil {
		t.Errorf("go.mod has %q", found)
	}
}

func TestAnUnreleasedVersionNamesTheCommitAndTheChanges(t *testing.T) {
	t.Parallel()
	tree := t.TempDir()
	for _, name := range []string{"tools/version", "charts/strait/Chart.yaml"} {
		content, err := os.ReadFile(filepath.Join("../..", name))
		must(t, err)
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(tree, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(tree, name), content, 0o755))
	}
	run := func(name string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = tree
		c.Env = append(c.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(tree), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", c.Args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	is := func(about, form string) string {
		t.Helper()
		got := run("bash", "tools/version") // not the file itself: a process that starts meanwhile may have it open for writing
		if !regexp.MustCompile("^"+form+"$").MatchString(got) || !versionForm.MatchString(got) {
			t.Errorf("%s: version %q, want %s", about, got, form)
		}
		return got
	}
	is("no clone", `v0\.1\.0-dev`)
	run("git", "init", "-q")
	run("git", "add", ".")
	run("git", "commit", "-q", "-m", "first")
	clean := is("a commit", `v0\.1\.0-dev\.g[0-9a-f]{12}`)
	var changed [2]string
	for i := range changed {
		must(t, os.WriteFile(filepath.Join(tree, "charts/strait/Chart.yaml"), fmt.Appendf(nil, "appVersion: 0.1.0\n# %d\n", i), 0o644))
		changed[i] = is("changes", regexp.QuoteMeta(clean)+`\.c[0-9a-f]{12}`)
	}
	if changed[0] == changed[1] {
		t.Errorf("other changes have the same version %s", changed[0])
	}
	run("git", "checkout", "-q", ".")
	run("git", "tag", "v0.1.0-rc.1")
	is("a tag", `v0\.1\.0-rc\.1`)
}
