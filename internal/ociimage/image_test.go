package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/internal/archive"
	"strait.dev/strait/internal/sbom"
)

const (
	name   = "registry.example/strait:1.2.3"
	source = "https://git.example/fork"
)

// build compiles a package as the image requires.
func build(t *testing.T, pkg, architecture string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), architecture)
	compile := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, pkg)
	compile.Env = append(compile.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	if text, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", compile.Args, err, text)
	}
	return out
}

// small is a program of this module that builds quickly.
const small = "strait.dev/strait/internal/testreport"

// files returns the files in a tar.
func files(t *testing.T, archive io.Reader) map[string]*file {
	t.Helper()
	all := make(map[string]*file)
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		if all[header.Name] != nil {
			t.Errorf("%s is listed twice", header.Name)
		}
		content, err := io.ReadAll(r)
		must(t, err)
		all[header.Name] = &file{header, content, false}
	}
}

type file struct {
	header  *tar.Header
	content []byte
	used    bool // it is referenced
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// blob returns what a descriptor refers to.
func blob(t *testing.T, all map[string]*file, d descriptor) []byte {
	t.Helper()
	f := all["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
	if f == nil {
		t.Fatalf("%s is missing", d.Digest)
	}
	if len(f.content) != d.Size || "sha256:"+archive.Sum(f.content) != d.Digest {
		t.Errorf("%s is %d bytes with the digest %s, not %d", d.Digest, len(f.content), archive.Sum(f.content), d.Size)
	}
	f.used = true
	return f.content
}

func parse[T any](t *testing.T, text []byte) (form T) {
	t.Helper()
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	must(t, from.Decode(&form))
	return form
}

func TestArchiveIsOneImageForAllPlatforms(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "strait.oci.tar")
	paths := []string{build(t, small, "amd64"), build(t, small, "arm64")}
	_, err := run(out, name, source, paths)
	must(t, err)
	archive, err := os.Open(out)
	must(t, err)
	defer archive.Close()
	all := files(t, archive)

	if got := string(all["oci-layout"].content); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %s", got)
	}
	top := parse[index](t, all["index.json"].content)
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["io.containerd.image.name"] != name || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.2.3" {
		t.Fatalf("index.json is %+v, not one image of that name", top)
	}
	whole := parse[index](t, blob(t, all, top.Manifests[0]))
	if len(whole.Manifests) != 4 {
		t.Fatalf("the image has %d parts, not two platforms with a bill of materials each", len(whole.Manifests))
	}
	for i, architecture := range []string{"amd64", "arm64"} {
		d := whole.Manifests[i]
		if *d.Platform != (platform{"linux", architecture}) {
			t.Errorf("part %d is for %+v", i, *d.Platform)
		}
		program, err := os.ReadFile(paths[i])
		must(t, err)
		checkImage(t, all, d, program)

		attached := parse[manifest](t, blob(t, all, whole.Manifests[2+i]))
		if attached.Subject == nil || attached.Subject.Digest != d.Digest || attached.Subject.Size != d.Size || attached.ArtifactType != "application/spdx+json" {
			t.Errorf("%s: attached is %+v", architecture, attached)
		}
		blob(t, all, attached.Config)
		beside, err := os.ReadFile(filepath.Join(dir, "strait-linux-"+architecture+".spdx.json"))
		must(t, err)
		if !bytes.Equal(blob(t, all, attached.Layers[0]), beside) {
			t.Errorf("%s: the bill of materials next to the archive differs from the one in it", architecture)
		}
	}
	for name, f := range all {
		if strings.HasPrefix(name, "blobs/") && !f.used {
			t.Errorf("%s is not referenced", name)
		}
	}
}

// checkImage checks the image of one platform.
func checkImage(t *testing.T, all map[string]*file, d descriptor, program []byte) {
	t.Helper()
	m := parse[manifest](t, blob(t, all, d))
	c := parse[config](t, blob(t, all, m.Config))
	if c.platform != *d.Platform || c.Config.User != "65534:65534" || !slices.Equal(c.Config.Entrypoint, []string{"/strait"}) {
		t.Errorf("the configuration is %+v", c)
	}
	for key, want := range map[string]string{
		"title": "strait", "version": "1.2.3", "licenses": "Apache-2.0", "source": source,
	} {
		if got := c.Config.Labels["org.opencontainers.image."+key]; got != want {
			t.Errorf("label %s is %q, not %q", key, got, want)
		}
	}
	if len(m.Layers) != 1 || len(c.RootFS.DiffIDs) != 1 {
		t.Fatalf("%d layers, not one", len(m.Layers))
	}
	unzip, err := gzip.NewReader(bytes.NewReader(blob(t, all, m.Layers[0])))
	must(t, err)
	unpacked, err := io.ReadAll(unzip)
	must(t, err)
	if got := "sha256:" + archive.Sum(unpacked); got != c.RootFS.DiffIDs[0] {
		t.Errorf("the layer is %s, not %s", got, c.RootFS.DiffIDs[0])
	}
	inside := files(t, bytes.NewReader(unpacked))
	f := inside["strait"]
	if len(inside) != 1 || f == nil {
		t.Fatalf("the layer has %d files, not only /strait", len(inside))
	}
	if f.header.Mode != 0o755 || f.header.Uid != 0 || f.header.Gid != 0 || !f.header.ModTime.Equal(time.Unix(0, 0)) || !bytes.Equal(f.content, program) {
		t.Errorf("/strait is %+v, or another program", f.header)
	}
}

func TestT18_TheSameBinariesMakeTheSameBytes(t *testing.T) {
	path := build(t, small, "amd64")
	var archives [2][]byte
	for i := range archives {
		out := filepath.Join(t.TempDir(), "strait.oci.tar")
		_, err := run(out, name, source, []string{path})
		must(t, err)
		archives[i], err = os.ReadFile(out)
		must(t, err)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of one binary differ")
	}
}

func TestT18_TheBillOfMaterialsNamesEveryModule(t *testing.T) {
	const program = "golang.zx2c4.com/wireguard" // small, with several modules
	b, err := readBinary(build(t, program, "amd64"))
	must(t, err)
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}@{{.Version}}{{end}}", program)
	list.Env = append(list.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	out, err := list.Output()
	must(t, err)
	want := append(strings.Fields(string(out)), "stdlib@"+strings.TrimPrefix(b.info.GoVersion, "go"))
	slices.Sort(want)
	want = slices.DeleteFunc(slices.Compact(want), func(m string) bool { return strings.HasPrefix(m, program+"@") })

	doc := parse[sbom.Document](t, bomOf(b, "1.2.3", map[string]string{"golang.org/x/sys": "BSD-3-Clause"}))
	var got []string
	ids := make(map[string]bool)
	for _, p := range doc.Packages {
		if ids[p.ID] {
			t.Errorf("two packages are %s", p.ID)
		}
		ids[p.ID] = true
		if wanted := "pkg:golang/" + p.Name + "@" + p.Version; p.Refs[0].Locator != wanted {
			t.Errorf("%s is %s", p.Refs[0].Locator, wanted)
		}
		if p.Name == "golang.org/x/sys" && p.Declared != "BSD-3-Clause" {
			t.Errorf("%s has the licence %s", p.Name, p.Declared)
		}
		got = append(got, p.Name+"@"+p.Version)
	}
	if got[0] != program+"@1.2.3" || doc.Packages[0].Sums[0].Value != archive.Sum(b.content) {
		t.Errorf("it is about %s", got[0])
	}
	got = got[1:]
	slices.Sort(got)
	if len(want) < 3 || !slices.Equal(got, want) {
		t.Errorf("modules are\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, r := range doc.Relationships {
		if r.Of != sbom.DocumentID && !ids[r.Of] || !ids[r.To] {
			t.Errorf("%+v has no subject", r)
		}
	}
}

func TestProgramsThatAnImageCannotRunAreRejected(t *testing.T) {
	good := build(t, small, "amd64")
	script := filepath.Join(t.TempDir(), "script")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	for _, c := range []struct {
		name  string
		paths []string
		want  string
	}{
		{name, []string{script}, "pass a program built by Go"},
		{name, []string{changed(t, good, func(program []byte) { // the build information of another system
			copy(program, bytes.ReplaceAll(program, []byte("\tGOOS=linux"), []byte("\tGOOS=plan9")))
		})}, "is for plan9; build it with GOOS=linux"},
		{name, []string{changed(t, good, func(program []byte) {
			// The first segment becomes a loader: its type is at the start of the program
			// header table.
			binary.LittleEndian.PutUint32(program[binary.LittleEndian.Uint64(program[32:]):], uint32(elf.PT_INTERP))
		})}, "build it with CGO_ENABLED=0"},
		{name, []string{good, good}, "two binaries are for linux/amd64"},
		{name, []string{good + "-not"}, "no such file"},
		{name, nil, "a binary for each platform"},
		{"registry.example:5000/strait", []string{good}, "has no tag"},
		{"strait:", []string{good}, "has no tag"},
	} {
		out := filepath.Join(t.TempDir(), "strait.oci.tar")
		if _, err := run(out, c.name, source, c.paths); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %v: %v, want %q", c.name, c.paths, err, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s of %v left a file", c.name, c.paths)
		}
	}
}

// changed is the path of a copy that was changed.
func changed(t *testing.T, path string, change func([]byte)) string {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	change(content)
	copied := filepath.Join(t.TempDir(), "changed")
	must(t, os.WriteFile(copied, content, 0o755))
	return copied
}
