package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// update writes the reference and golden files instead of comparing them.
var update = flag.Bool("update", false, "write docs/reference/cli.md and testdata")

const referenceFile = "../../docs/reference/cli.md"

// reference returns the page of all commands.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(`# Command line

Generated from the program by ` + "`make generate`" + `. Each command prints the same text with ` + "`--help`" + `.

Exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted. Results go to standard output; errors, warnings and progress go to standard error. Output has colours on a terminal unless ` + "`NO_COLOR`" + ` is set. Control characters and other characters that are not printed, which a remote cluster may have put into a message, are shown as ` + "`\\u001b`" + `. As a plugin of kubectl, ` + "`strait`" + ` is ` + "`kubectl strait`" + ` (see [strait completion](#strait-completion)).

| command | description |
|---|---|
`)
	var all []*cobra.Command
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Hidden || sub.Name() == "help" {
				continue
			}
			all = append(all, sub)
			walk(sub)
		}
	}
	walk(root)
	for _, c := range all {
		path := c.CommandPath()
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", path, strings.ReplaceAll(path, " ", "-"), cell(c.Short))
	}
	for _, c := range all {
		fmt.Fprintf(&b, "\n## %s\n\n", c.CommandPath())
		about := c.Long
		if about == "" {
			about = c.Short + "."
		}
		fmt.Fprintf(&b, "```text\n%s\n```\n\n", strings.TrimSpace(about))
		fmt.Fprintf(&b, "```text\n%s\n```\n\n", c.UseLine())
		fmt.Fprintf(&b, "```sh\n%s\n```\n", outdent(c.Example))
		if c.LocalFlags().HasAvailableFlags() {
			b.WriteString("\n| flag | description |\n|---|---|\n")
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden && f.Name != "help" {
					fmt.Fprintf(&b, "| %s | %s |\n", flagName(f), cell(flagUsage(f)))
				}
			})
		}
	}
	return b.String()
}

func flagName(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	text := "--" + f.Name
	if name != "" {
		text += " " + name
	}
	if f.Shorthand != "" {
		text = "-" + f.Shorthand + ", " + text
	}
	return "`" + text + "`"
}

func flagUsage(f *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(f)
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
		return usage
	}
	return fmt.Sprintf("%s (default `%s`)", usage, f.DefValue)
}

// cell escapes text for a table of Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`).Replace(text)
}

func outdent(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimPrefix(strings.TrimRight(line, "\n"), "  "))
	}
	return strings.Join(lines, "\n")
}

func TestTheReferenceOfTheCommandLineIsCurrent(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "") // defaults of some flags
	t.Setenv("POD_NAME", "")
	want := reference(newRoot())
	if *update {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil || string(got) != want {
		t.Errorf("docs/reference/cli.md is not generated from these commands (%v): run make generate", err)
	}
}
