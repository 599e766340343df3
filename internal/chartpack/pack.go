package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"time"

	"strait.dev/strait/internal/archive"
)

// edit is a line of a chart's file that depends on the build.
type edit struct {
	file string
	line *regexp.Regexp // must match once
	text func(build) string
}

var edits = []edit{
	{"Chart.yaml", regexp.MustCompile(`(?m)^version: .*$`), func(b build) string { return "version: " + b.version }},
	{"Chart.yaml", regexp.MustCompile(`(?m)^appVersion: .*$`), func(b build) string { return "appVersion: " + b.version }},
	{"Chart.yaml", regexp.MustCompile(`(?m)^sources: .*$`), func(b build) string { return "sources: [" + b.source + "]" }},
	{"Chart.yaml", regexp.MustCompile(`(?m)^      image: .*$`), func(b build) string { return "      image: " + b.image() }},
	{"README.md", regexp.MustCompile("(?m)^\\| `image.repository` \\| `[^`]*`"), func(b build) string { return "| `image.repository` | `" + b.repository + "`" }},
	{"README.md", regexp.MustCompile("(?m)^\\| `image.digest` \\| `[^`]*`"), func(b build) string { return "| `image.digest` | `\"" + b.digest + "\"`" }},
	{"values.yaml", regexp.MustCompile(`(?m)^  repository: .*$`), func(b build) string { return "  repository: " + b.repository }},
	{"values.yaml", regexp.MustCompile(`(?m)^  digest: .*$`), func(b build) string { return `  digest: "` + b.digest + `"` }},
}

// image returns the name of the image that the chart installs.
func (b build) image() string {
	if b.digest != "" {
		return b.repository + ":" + b.version + "@" + b.digest
	}
	return b.repository + ":" + b.version
}

func pack(chart fs.FS, b build) ([]byte, error) {
	var files []archive.File
	used := 0
	err := fs.WalkDir(chart, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(chart, name)
		if err != nil {
			return err
		}
		for _, e := range edits {
			if e.file != name {
				continue
			}
			used++
			if found := len(e.line.FindAll(content, -1)); found != 1 {
				return fmt.Errorf("%s has %d lines that match %s, want one; adapt internal/chartpack", name, found, e.line)
			}
			content = e.line.ReplaceAllLiteral(content, []byte(e.text(b)))
		}
		files = append(files, archive.File{Name: path.Join("strait", name), Mode: 0o644, Content: content})
		return nil
	})
	if err == nil && used != len(edits) {
		err = errors.New("it lacks Chart.yaml, README.md or values.yaml; pass the folder of a chart")
	}
	if err != nil {
		return nil, err
	}
	return archive.TarGzip(files, time.Time{})
}
