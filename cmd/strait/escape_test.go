package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// hostile is what a remote cluster may write into an annotation: it sets the title of the
// window, erases the screen, goes to the start of the line, and reverses the order of letters.
const hostile = "\x1b]0;owned\x07\x1b[2J\r\u009b31m\u202eall agree\x7f"

const escapedHostile = `\u001b]0;owned\u0007\u001b[2J\u000d\u009b31m\u202eall agree\u007f`

func TestControlCharactersAreEscaped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a table\twith ✓ and ö, 界 …\n": "a table\twith ✓ and ö, 界 …\n",
		hostile:                        escapedHostile,
		"\xff\x9b":                     `\ufffd\ufffd`,
		"\U000e0041\u2066\u200f\ufeff": `\udb40\udc41\u2066\u200f\ufeff`,
	} {
		for size := 1; size <= len(text); size++ { // in pieces, also within characters
			var b strings.Builder
			w := escaping(&b)
			for piece := range slices.Chunk([]byte(text), size) {
				if n, err := w.Write(piece); n != len(piece) || err != nil {
					t.Fatal(n, err)
				}
			}
			if b.String() != want {
				t.Errorf("%q in pieces of %d became %q, want %q", text, size, b.String(), want)
			}
		}
	}
}

// Whatever a command prints and returns, and whichever it is: no command writes anywhere else,
// see TestCommandsWriteToTheEscapingOutputsOnly.
func TestNoCommandWritesControlCharactersOfOthers(t *testing.T) {
	eachCommand(t, func(t *testing.T, c *cobra.Command) {
		root := newRoot()
		is, _, err := root.Find(strings.Fields(strings.TrimPrefix(c.CommandPath(), "strait ")))
		if err != nil {
			t.Fatal(err)
		}
		is.Args, is.PreRunE = nil, nil
		is.RunE = func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(withColors(cmd.OutOrStdout()), "table", hostile)
			fmt.Fprintln(cmd.OutOrStdout(), "line", hostile)
			p := newProgress(cmd)
			p.Say("progress " + hostile)
			p.Done()
			cmd.Println("cobra", hostile)
			return errors.New("error " + hostile)
		}
		var out, errs strings.Builder
		root.SetOut(&out)
		root.SetErr(&errs)
		code := execute(root, strings.Fields(strings.TrimPrefix(c.CommandPath(), "strait ")))
		want := "table " + escapedHostile + "\nline " + escapedHostile + "\ncobra " + escapedHostile + "\n"
		if code != exitFailed || out.String() != want {
			t.Errorf("ends with %d and prints %q", code, out.String())
		}
		if want := "progress " + escapedHostile + "\nstrait: error " + escapedHostile + "\n"; errs.String() != want {
			t.Errorf("stderr is %q", errs.String())
		}
	})
}

// raw are the files of cmd/strait that use the outputs as they are, and why.
var raw = map[string]string{
	"escape.go":     "is the writer",
	"terminal.go":   "writes control sequences of Strait",
	"capture.go":    "writes packets",
	"gather.go":     "writes an archive",
	"completion.go": "writes a script without text of others",
	"agenthttp.go":  "writes for another process",
	"benchpeer.go":  "writes for another process",
}

func TestCommandsWriteToTheEscapingOutputsOnly(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	for _, dir := range []string{".", "../../k8s", "../../operate", "../../bench", "../../internal/demo", "../../internal/daemon", "../../internal/localsocket", "../../internal/endpoint", "../../internal/capture", "../../control", "../../node"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "unescaped" {
						if used[path] = true; raw[path] == "" {
							t.Errorf("%s uses unescaped", path)
						}
					}
				}
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				switch of := fmt.Sprint(s.X) + "." + s.Sel.Name; of {
				case "os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println", "cobra.CompErrorln", "cobra.CompDebug":
					t.Errorf("%s uses %s: write to cmd.OutOrStdout() or cmd.ErrOrStderr()", path, of)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	used["escape.go"] = true
	for path := range maps.Keys(raw) {
		if !used[path] {
			t.Errorf("%s does not use unescaped", path)
		}
	}
}

func TestStatusEscapesMessagesOfOthers(t *testing.T) {
	text, err := os.ReadFile(brokenObjects)
	if err != nil {
		t.Fatal(err)
	}
	const message = "10.9.0.0/16 is not granted"
	const wide = "; to accept it, add it to spec.acceptPrefixes"
	if !strings.Contains(string(text), message+wide) {
		t.Fatal("the message is another one")
	}
	quoted, err := json.Marshal(message + hostile)
	if err != nil {
		t.Fatal(err)
	}
	quoted, _ = escape(quoted)
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, regexp.MustCompile(`"`+message+wide+`"`).ReplaceAllLiteral(text, quoted), 0o600); err != nil {
		t.Fatal(err)
	}
	access(t, map[string]string{"a": objects(t, file).URL})
	for _, format := range formats {
		out, errs, _ := output("", "status", "--context", "a", "-o", format)
		if !strings.Contains(out, message) || strings.ContainsAny(out+errs, "\x1b\r\u009b\u202e\x7f") {
			t.Errorf("-o %s prints %q", format, out+errs)
		}
		if format == "table" {
			continue
		}
		var is any
		if err := yaml.Unmarshal([]byte(out), &is); err != nil || !strings.Contains(fmt.Sprint(is), message+hostile) {
			t.Errorf("-o %s has another message, %v:\n%s", format, err, out)
		}
	}
}

func TestPacketsOfACaptureAreNotEscaped(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	root := newRoot()
	root.SetOut(escaping(&b))
	if _, err := io.WriteString(unescaped(root.OutOrStdout()), hostile); err != nil || b.String() != hostile {
		t.Errorf("%q, %v", b.String(), err)
	}
}
