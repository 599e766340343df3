// Release writes what a release has apart from the image and the chart, which are already in
// its directory: an archive of the command line for each platform, a bill of materials for
// each archive, the manifest for krew, notes from the changelog, and SHA256SUMS of all files.
// It needs no network, and its output is reproducible.
//
//	release -o dist -version v0.1.0 -source github.com/OWNER/NAME -programs bin/release -man bin/release/man
//
// The programs are OS-ARCHITECTURE/strait, and strait.exe for Windows. That of this machine's
// platform writes the completion scripts. The working directory is the root of the repository.
package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"strait.dev/strait/internal/archive"
	"strait.dev/strait/internal/sbom"
)

// options are the arguments.
type options struct {
	out, version, source, programs, man string
}

func main() {
	var o options
	flag.StringVar(&o.out, "o", "", "the directory of the release; it has the image and the chart")
	flag.StringVar(&o.version, "version", "", "version of the release, vMAJOR.MINOR.PATCH")
	flag.StringVar(&o.source, "source", "strait.dev/strait", "where the source and the releases are, without https://")
	flag.StringVar(&o.programs, "programs", "", "the directory of the programs")
	flag.StringVar(&o.man, "man", "", "the directory of the man pages")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var versionForm = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

func run(o options) error {
	if !versionForm.MatchString(o.version) {
		return fmt.Errorf("-version %q is not vMAJOR.MINOR.PATCH, with -PRERELEASE if it is one", o.version)
	}
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	notes, err := notesOf(string(changelog), o.version, o.source)
	if err != nil {
		return err
	}
	programs, err := findPrograms(o.programs)
	if err != nil {
		return err
	}
	shared, err := sharedFiles(o)
	if err != nil {
		return err
	}
	licences, err := sbom.Licences()
	if err != nil {
		return err
	}
	for i := range programs {
		if err := programs[i].writeArchive(o, shared, licences); err != nil {
			return fmt.Errorf("%s: %w", programs[i].path, err)
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(o.out, "strait.yaml"), krewManifest(o, programs), 0o644),
		os.WriteFile(filepath.Join(o.out, "RELEASE-NOTES.md"), []byte(notes), 0o644),
		writeSums(o.out),
	)
}

// program is the command line for a platform, and later its archive.
type program struct {
	path, system, architecture string

	archive string // file name
	sum     string // of the archive, SHA-256
}

func (p *program) name() string {
	if p.system == "windows" {
		return "strait.exe"
	}
	return "strait"
}

func findPrograms(folder string) (all []program, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*-*", "strait*"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		p := program{path: path}
		p.system, p.architecture, _ = strings.Cut(filepath.Base(filepath.Dir(path)), "-")
		if filepath.Base(path) != p.name() {
			return nil, fmt.Errorf("%s: the program for %s is %s", path, p.system, p.name())
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("-programs %q has no OS-ARCHITECTURE/strait; build them first, with make release", folder)
	}
	return all, nil
}

// sharedFiles returns the files that all archives have: the licence, completion scripts, man pages.
func sharedFiles(o options) ([]archive.File, error) {
	licence, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, err
	}
	all := []archive.File{{Name: "LICENSE", Mode: 0o644, Content: licence}}
	here := program{system: runtime.GOOS}
	host := filepath.Join(o.programs, runtime.GOOS+"-"+runtime.GOARCH, here.name())
	for _, shell := range []struct{ name, file string }{{"bash", "strait.bash"}, {"zsh", "_strait"}, {"fish", "strait.fish"}, {"powershell", "strait.ps1"}} {
		script, err := exec.Command(host, "completion", shell.name).Output()
		if err != nil {
			return nil, fmt.Errorf("%s completion %s: %w", host, shell.name, err)
		}
		all = append(all, archive.File{Name: "completions/" + shell.file, Mode: 0o644, Content: script})
	}
	pages, err := filepath.Glob(filepath.Join(o.man, "*.1"))
	if err != nil {
		return nil, err
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("-man %q has no man page", o.man)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		all = append(all, archive.File{Name: "man/man1/" + filepath.Base(page), Mode: 0o644, Content: text})
	}
	return all, nil
}

func (p *program) writeArchive(o options, shared []archive.File, licences map[string]string) error {
	content, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return err
	}
	var made time.Time // of the commit; zero if unknown
	for _, s := range info.Settings {
		switch {
		case s.Key == "GOOS" && s.Value != p.system, s.Key == "GOARCH" && s.Value != p.architecture:
			return fmt.Errorf("it is built with %s=%s; build it again", s.Key, s.Value)
		case s.Key == "vcs.time":
			made, _ = time.Parse(time.RFC3339, s.Value) // zero if invalid
		}
	}
	number := strings.TrimPrefix(o.version, "v")
	title := fmt.Sprintf("strait-%s-%s-%s", number, p.system, p.architecture)
	pack, extension := archive.TarGzip, ".tar.gz"
	if p.system == "windows" {
		pack, extension = archive.Zip, ".zip"
	}
	content, err = pack(append([]archive.File{{Name: p.name(), Mode: 0o755, Content: content}}, shared...), made)
	if err != nil {
		return err
	}
	p.archive, p.sum = title+extension, archive.Sum(content)
	bom := sbom.Describe(sbom.Subject{
		Title: title, Name: info.Main.Path, Version: number, Purl: "pkg:golang/" + info.Main.Path + "@" + o.version,
		File: p.archive, Purpose: "ARCHIVE", Content: content, Made: made,
	}, sbom.Modules(info, licences))
	path := filepath.Join(o.out, p.archive)
	return errors.Join(os.WriteFile(path, content, 0o644), os.WriteFile(path+".spdx.json", bom, 0o644))
}

const sumsFile = "SHA256SUMS"

// writeSums writes the checksums of all files of a directory, as sha256sum reads them.
func writeSums(folder string) error {
	entries, err := os.ReadDir(folder) // sorted
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name() == sumsFile })
	var sums strings.Builder
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", archive.Sum(content), e.Name())
	}
	return os.WriteFile(filepath.Join(folder, sumsFile), []byte(sums.String()), 0o644)
}
