package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

const repository = "../.."

// pages returns all pages of documentation, by their path in the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, from := range []string{"docs", "charts"} {
		err := filepath.WalkDir(filepath.Join(repository, from), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(repository, path)
			all[filepath.ToSlash(name)] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	top, err := filepath.Glob(filepath.Join(repository, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range top {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(path)] = string(text)
	}
	return all
}

var (
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	anchors  = regexp.MustCompile(`<a id="([^"]+)">`)
	fences   = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	inline   = regexp.MustCompile("`((?:strait|bin/strait) [^`]+)`")
)

// targets returns the anchors of a page.
func targets(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range headings.FindAllStringSubmatch(fences.ReplaceAllString(page, ""), -1) {
		text := links.ReplaceAllString(m[1], "]")
		var b strings.Builder
		for _, r := range strings.ToLower(text) {
			switch {
			case r == ' ':
				b.WriteByte('-')
			case r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z':
				b.WriteRune(r)
			}
		}
		all[b.String()] = true
	}
	for _, m := range anchors.FindAllStringSubmatch(page, -1) {
		all[m[1]] = true
	}
	return all
}

func TestEveryLinkInTheDocsResolves(t *testing.T) {
	all := pages(t)
	for name, text := range all {
		for _, m := range links.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			path := name
			if to != "" {
				path = filepath.ToSlash(filepath.Join(filepath.Dir(name), to))
				if _, err := os.Stat(filepath.Join(repository, path)); err != nil {
					t.Errorf("%s: (%s) leads nowhere", name, m[1])
					continue
				}
			}
			if page, is := all[path]; is && anchor != "" && !targets(page)[anchor] {
				t.Errorf("%s: (%s) leads to a heading that is not there", name, m[1])
			}
		}
	}
}

// TestEveryCommandLineInTheDocsParses checks the commands and flags of every page and of the
// charts' notes. Blocks hold whole command lines; in a sentence, arguments may be left out.
func TestEveryCommandLineInTheDocsParses(t *testing.T) {
	checked := 0
	all := pages(t)
	notes, err := filepath.Glob(filepath.Join(repository, "charts/*/templates/NOTES.txt"))
	if err != nil || len(notes) == 0 {
		t.Fatalf("no notes of charts: %v", err)
	}
	for _, path := range notes {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = "```sh\n" + string(text) + "\n```\n"
	}
	for name, text := range all {
		if strings.HasPrefix(name, "docs/design/") { // written for earlier versions
			continue
		}
		for _, words := range commandLines(blocks(text)) {
			checked++
			if is, err := parses(words); err != nil || is == "strait" && !strings.HasPrefix(words[0], "-") {
				t.Errorf("%s: strait %s: %v", name, strings.Join(words, " "), err)
			}
		}
		for _, m := range inline.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
			for _, words := range commandLines(m[1]) {
				checked++
				c, rest, err := newRoot().Find(words)
				if err == nil {
					err = c.ParseFlags(rest)
				}
				if errors.Is(err, pflag.ErrHelp) || err != nil && strings.Contains(err.Error(), "needs an argument") {
					continue // the sentence is about the flag
				}
				if err != nil || !c.HasParent() && !strings.HasPrefix(words[0], "-") {
					t.Errorf("%s: `strait %s`: %v", name, strings.Join(words, " "), err)
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d command lines were found", checked)
	}
}

// blocks returns the shell in a page: fenced blocks of a shell language, and indented lines
// that begin with the program.
func blocks(page string) string {
	var b strings.Builder
	for _, m := range fences.FindAllStringSubmatch(page, -1) {
		if slices.Contains([]string{"sh", "bash", "shell", "console"}, m[1]) {
			b.WriteString(m[2] + "\n")
		}
	}
	for line := range strings.Lines(fences.ReplaceAllString(page, "")) {
		if text, is := strings.CutPrefix(line, "    "); is && (strings.HasPrefix(strings.TrimSpace(text), "strait ") || strings.HasPrefix(strings.TrimSpace(text), "bin/strait ")) {
			b.WriteString(text)
		}
	}
	return b.String()
}

var (
	makeTarget = regexp.MustCompile("`make ([a-z0-9-]+)")
	testName   = regexp.MustCompile("`(Test[A-Z]\\w*)`")
	testFunc   = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
)

// What the docs say was tested names the command or the test.
func TestEveryMakeTargetAndTestInTheDocsExists(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	err = filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range pages(t) {
		for _, m := range makeTarget.FindAllStringSubmatch(page, -1) {
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s: there is no make %s", name, m[1])
			}
		}
		for _, m := range testName.FindAllStringSubmatch(page, -1) {
			if !tests[m[1]] {
				t.Errorf("%s: there is no test %s", name, m[1])
			}
		}
	}
}

func TestTheIndexOfTheDocsHasEveryPage(t *testing.T) {
	all := pages(t)
	for name := range all {
		folder, file := filepath.Split(name)
		index := "docs/README.md"
		switch {
		case !strings.HasPrefix(name, "docs/") || file == "README.md":
			continue
		case folder == "docs/troubleshooting/", folder == "docs/runbooks/":
			index = folder + "README.md"
		}
		link := strings.TrimPrefix(name, filepath.ToSlash(filepath.Dir(index))+"/")
		if !strings.Contains(all[index], "("+link) {
			t.Errorf("%s has no link to %s", index, link)
		}
	}
}
