package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// eachCommand calls f in a subtest for every command that is not hidden.
func eachCommand(t *testing.T, f func(t *testing.T, c *cobra.Command)) {
	t.Helper()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		if c.HasParent() {
			t.Run(strings.TrimPrefix(c.CommandPath(), "strait "), func(t *testing.T) { f(t, c) })
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}

func TestEveryCommandHasHelp(t *testing.T) {
	eachCommand(t, func(t *testing.T, c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || len(c.Short) > 70 || c.Short[:1] != strings.ToUpper(c.Short[:1]) {
			t.Errorf("Short is %q: want at most 70 letters, a verb and its object, without a full stop", c.Short)
		}
		if c.Example == "" {
			t.Error("no example")
		}
		for _, text := range []string{c.Long, c.Example} {
			for line := range strings.Lines(text) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 120 {
					t.Errorf("a line of help has %d letters: %s", n, line)
				}
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && (f.Usage == "" || strings.HasSuffix(f.Usage, ".")) {
				t.Errorf("--%s: usage is %q", f.Name, f.Usage)
			}
		})
		help, _, code := output("", append(strings.Fields(strings.TrimPrefix(c.CommandPath(), "strait ")), "--help")...)
		if code != exitOK || strings.Count(help, "Examples:\n") != 1 || strings.Index(help, "Examples:\n") > strings.Index(help, "Usage:\n  strait ") {
			t.Errorf("--help ends with %d and prints\n%s", code, help)
		}
	})
}

func TestEveryExampleParses(t *testing.T) {
	eachCommand(t, func(t *testing.T, c *cobra.Command) {
		found := false
		for _, words := range commandLines(c.Example) {
			found = true
			is, err := parses(words)
			if err != nil {
				t.Errorf("strait %s: %v", strings.Join(words, " "), err)
			} else if is == "strait" {
				t.Errorf("strait %s: no such command", strings.Join(words, " "))
			}
		}
		if !found && c.Name() != "completion" { // that is about shells
			t.Errorf("no command line in the example\n%s", c.Example)
		}
	})
}

func TestAnUnknownFlagIsAUsageError(t *testing.T) {
	eachCommand(t, func(t *testing.T, c *cobra.Command) {
		path := strings.Fields(strings.TrimPrefix(c.CommandPath(), "strait "))
		_, stderr, code := output("", append(path, "--no-such-flag")...)
		if code != exitUsage || !strings.Contains(stderr, "--no-such-flag") || !strings.Contains(stderr, fmt.Sprintf("strait: run %q for usage", c.CommandPath()+" --help")) {
			t.Errorf("ends with %d and says %q", code, stderr)
		}
	})
}

func TestFlagsThatExcludeEachOtherAreAUsageError(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere")
	found := false
	eachCommand(t, func(t *testing.T, c *cobra.Command) {
		groups := map[string]bool{}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, group := range f.Annotations[exclusiveGroups] {
				groups[group] = true
			}
		})
		for group := range groups {
			found = true
			words := strings.Fields(strings.TrimPrefix(c.CommandPath(), "strait "))
			for name := range strings.FieldsSeq(group) {
				words = append(words, "--"+name)
				if f := c.Flags().Lookup(name); f.NoOptDefVal == "" {
					words = append(words, "x")
				}
			}
			_, stderr, code := output("", words...)
			if code != exitUsage || !strings.Contains(stderr, " exclude each other: leave one out\n") || !strings.Contains(stderr, fmt.Sprintf("strait: run %q for usage", c.CommandPath()+" --help")) {
				t.Errorf("strait %s ends with %d and says %q", strings.Join(words, " "), code, stderr)
			}
		}
	})
	if !found {
		t.Error("no command has such flags")
	}
}

func TestEveryKindOfFlagGroupIsAUsageError(t *testing.T) {
	for name, c := range map[string]struct {
		mark func(c *cobra.Command)
		args []string
	}{
		"exclusive":         {func(c *cobra.Command) { c.MarkFlagsMutuallyExclusive("a", "b") }, []string{"--a=1", "--b=2"}},
		"required together": {func(c *cobra.Command) { c.MarkFlagsRequiredTogether("a", "b") }, []string{"--a=1"}},
		"one required":      {func(c *cobra.Command) { c.MarkFlagsOneRequired("a", "b") }, nil},
		"required":          {func(c *cobra.Command) { _ = c.MarkFlagRequired("b") }, []string{"--a=1"}},
	} {
		command := &cobra.Command{Use: "command", Args: noArguments, SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return nil }}
		command.Flags().String("a", "", "")
		command.Flags().String("b", "", "")
		c.mark(command)
		markUsage(command)
		command.SetErr(&strings.Builder{})
		if code := execute(command, c.args); code != exitUsage {
			t.Errorf("%s: ends with %d", name, code)
		}
	}
}

// printsNothing are the commands without -o, and why.
var printsNothing = map[string]string{
	"gateway":      "runs, and logs JSON",
	"controller":   "runs, and logs JSON",
	"node":         "runs, and logs JSON",
	"borrower":     "runs, and logs JSON",
	"lender":       "runs, and logs JSON",
	"completion":   "prints a script for a shell",
	"cidr":         "has subcommands",
	"bench peer":   "writes its result with --json",
	"bench report": "writes a page",
	"capture":      "writes packets",
	"dns":          "is a group of commands",
	"gather":       "writes an archive",
}

func TestEveryCommandThatPrintsHasTheSameFormats(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere")
	t.Setenv("HOME", t.TempDir())
	eachCommand(t, func(t *testing.T, c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "strait ")
		flag := c.Flags().Lookup("output")
		if why := printsNothing[name]; why != "" {
			if flag != nil {
				t.Errorf("has -o, but it %s", why)
			}
			return
		}
		if flag == nil || flag.Shorthand != "o" || flag.DefValue != "table" || !slices.Equal(formatsOf(flag)[:3], formats) {
			t.Fatalf("has no -o with %s", choice(formats))
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Shorthand == "o" && f.Name != "output" {
				t.Errorf("-o is --%s", f.Name)
			}
		})
		lines := commandLines(c.Example)
		if len(lines) == 0 {
			t.Fatal("no example")
		}
		_, stderr, code := output("", append(withoutOutput(lines[0]), "-o", "nonsense")...)
		if code != exitUsage || !strings.Contains(stderr, "choose") || !strings.Contains(stderr, "json") {
			t.Errorf("-o nonsense ends with %d and says %q", code, stderr)
		}
	})
}

// withoutOutput returns a command line without -o.
func withoutOutput(words []string) []string {
	i := slices.Index(words, "-o")
	if i < 0 {
		return words
	}
	return append(slices.Clone(words[:i]), words[i+2:]...)
}

func TestThePluginOfKubectlShowsItsName(t *testing.T) {
	for _, name := range []string{"/usr/local/bin/kubectl-strait", "kubectl-strait.exe"} {
		root, args := invoked([]string{name, "status", "--help"})
		var out strings.Builder
		root.SetOut(&out)
		if code := execute(root, args); code != exitOK || !strings.Contains(out.String(), "Usage:\n  kubectl strait status [PEERING...] [flags]\n") ||
			!strings.Contains(out.String(), "\n  kubectl strait status b --wait=5m\n") {
			t.Errorf("%s ends with %d and prints\n%s", name, code, out.String())
		}
		root, args = invoked([]string{name, "status", "--nonsense"})
		root.SetErr(&out)
		if code := execute(root, args); code != exitUsage || !strings.Contains(out.String(), `strait: run "kubectl strait status --help" for usage`) {
			t.Errorf("%s: a mistake ends with %d and prints\n%s", name, code, out.String())
		}
	}
	root, args := invoked([]string{"./strait", "version", "--client", "-o", "json"})
	var out strings.Builder
	root.SetOut(&out)
	if code := execute(root, args); code != exitOK || !json.Valid([]byte(out.String())) {
		t.Errorf("strait ends with %d and prints %s", code, out.String())
	}
}

// completed returns the completions of a command line, as kubectl requests them.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	root, args := invoked(append([]string{"kubectl_complete-strait"}, words...))
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&out)
	if code := execute(root, args); code != exitOK {
		t.Fatalf("completion of %q ends with %d:\n%s", words, code, out.String())
	}
	var offered []string
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == ':' || strings.HasPrefix(line, "Completion ended") {
			continue
		}
		word, _, _ := strings.Cut(line, "\t")
		offered = append(offered, word)
	}
	return offered
}

func TestCommandLinesAreCompleted(t *testing.T) {
	access(t, map[string]string{"a": objects(t, readyObjects).URL, "none": objects(t, noPeering).URL})
	for _, c := range []struct {
		words []string
		want  []string
	}{
		{[]string{"sta"}, []string{"status"}},
		{[]string{"status", "--context", ""}, []string{"a", "none"}},
		{[]string{"peer", "--remote-context", ""}, []string{"a", "none"}},
		{[]string{"status", "-o", ""}, []string{"table", "json", "yaml", "wide"}},
		{[]string{"resolve", "-o", ""}, []string{"table", "json", "yaml", "address"}},
		{[]string{"status", "--context", "a", ""}, []string{"prod-b"}},
		{[]string{"status", "--context", "a", "prod-b", ""}, nil},
		{[]string{"resolve", "10.0.0.1", "--context", "a", "--of", ""}, []string{"prod-b"}},
		{[]string{"completion", ""}, shells},
		{[]string{"trace", "--protocol", ""}, protocols},
		{[]string{"peer", "--service-type", ""}, []string{"NodePort", "LoadBalancer", "ClusterIP"}},
		{[]string{"invite", "b", "--service-type", ""}, []string{"NodePort", "LoadBalancer"}},
		{[]string{"resolve", ""}, nil},
	} {
		if got := completed(t, c.words...); !slices.Equal(got, c.want) {
			t.Errorf("after strait %s there is offered %q, want %q", strings.Join(c.words, " "), got, c.want)
		}
	}
}

func TestEveryShellHasACompletionScript(t *testing.T) {
	for _, shell := range shells {
		if out, _, code := output("", "completion", shell); code != exitOK || !strings.Contains(out, "strait") {
			t.Errorf("%s: ends with %d and prints %d letters", shell, code, len(out))
		}
	}
	if _, stderr, code := output("", "completion", "csh"); code != exitUsage || !strings.Contains(stderr, "choose bash, zsh, fish or powershell") {
		t.Errorf("csh: ends with %d and says %q", code, stderr)
	}
}

func TestLongErrorsAreWrappedBetweenWords(t *testing.T) {
	long := "strait: " + strings.Repeat("word ", 30) + "kubectl-get-pods-with-a-name-that-is-longer-than-all-of-the-line-and-stays-in-one-piece-to-be-copied"
	for line := range strings.Lines(wrap(long, 40)) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > 40 && strings.Contains(strings.TrimSpace(line), " ") {
			t.Errorf("%q is longer than 40 letters", line)
		}
	}
	if got := strings.Join(strings.Fields(wrap(long, 40)), " "); got != long {
		t.Errorf("words were lost: %q", got)
	}
	if got := wrap("one\n  two", 40); got != "one\n  two" {
		t.Errorf("a short text became %q", got)
	}
}
