// Chartpack packs a chart into an archive that Helm installs and pushes to registries, with the
// version and the image of a build. Its output is reproducible, which that of `helm package` is
// not. A bill of materials in SPDX is written next to the archive.
//
//	chartpack -o bin/strait.tgz -version 0.1.0 -repository strait.dev/strait [-digest sha256:...] charts/strait
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"strait.dev/strait/internal/sbom"
)

// build is what a packed chart installs.
type build struct {
	version    string // of the chart and the image's tag
	repository string // of the image
	digest     string // of the image; empty: it is found by its tag
	source     string // address of the source code
}

func main() {
	var b build
	out := flag.String("o", "", "the archive to write, FILE.tgz")
	flag.StringVar(&b.version, "version", "", "version of the chart and tag of the image")
	flag.StringVar(&b.repository, "repository", "", "repository of the image")
	flag.StringVar(&b.digest, "digest", "", "digest of the image, sha256:...; empty: the chart uses the tag")
	flag.StringVar(&b.source, "source", "https://strait.dev/strait", "address of the source code")
	flag.Parse()
	if err := run(*out, b, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "chartpack:", err)
		os.Exit(1)
	}
}

func run(out string, b build, folders []string) error {
	if out == "" || b.repository == "" || len(folders) != 1 {
		return errors.New("missing arguments: pass -o FILE.tgz, -version, -repository and the folder of the chart")
	}
	if !versionForm.MatchString(b.version) {
		return fmt.Errorf("-version %q is not MAJOR.MINOR.PATCH, with -PRERELEASE if it is one", b.version)
	}
	if b.digest != "" && !digestForm.MatchString(b.digest) {
		return fmt.Errorf("-digest %q is not sha256: and 64 hexadecimal digits", b.digest)
	}
	archive, err := pack(os.DirFS(folders[0]), b)
	if err != nil {
		return fmt.Errorf("%s: %w", folders[0], err)
	}
	image := sbom.Part{Name: b.repository, Version: b.version, Purl: "pkg:oci/strait?repository_url=" + b.repository + "&tag=" + b.version, Licence: "Apache-2.0"}
	if b.digest != "" {
		image.Purl = "pkg:oci/strait@" + strings.Replace(b.digest, ":", "%3A", 1) + "?repository_url=" + b.repository + "&tag=" + b.version
	}
	file := filepath.Base(out)
	bom := sbom.Describe(sbom.Subject{
		Title: strings.TrimSuffix(file, ".tgz"), Name: "strait chart", Version: b.version, Purl: "pkg:helm/strait@" + b.version,
		File: file, Purpose: "INSTALL", Content: archive,
	}, []sbom.Part{image})
	return errors.Join(os.WriteFile(out, archive, 0o644), os.WriteFile(out+".spdx.json", bom, 0o644))
}

var (
	versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)
	digestForm  = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)
