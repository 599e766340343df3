//go:build e2e || nightly

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// follow runs the commands of a page verbatim, in order and in one shell.
func (w *world) follow(t *testing.T, page string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, page))
	must(t, err)
	script := shellBlocks(string(text))
	if script == "" {
		t.Fatalf("%s has no shell block; start them with ```sh", page)
	}
	stage(t, page, func(t *testing.T) {
		cmd := w.command(t, "bash", "-s")
		var out bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("set -e\n"+script), &out, &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v; the output is:\n%s", err, &out)
		}
		t.Logf("the output is:\n%s", &out)
	})
}

// shellBlocks returns the blocks of a page that start with ```sh, each preceded by a
// command that prints its line number.
func shellBlocks(page string) string {
	var script strings.Builder
	inside, number := false, 0
	for line := range strings.Lines(page) {
		number++
		switch text := strings.TrimRight(line, "\r\n"); {
		case inside && text == "```":
			inside = false
		case inside:
			script.WriteString(line)
		case text == "```sh":
			inside = true
			fmt.Fprintf(&script, "echo '== line %d'\n", number+1)
		}
	}
	return script.String()
}

func TestOnlyShellBlocksOfAPageAreRun(t *testing.T) {
	page := "text\n```sh\nfirst\n```\n```yaml\nnot: this\n```\n    nor this\n```sh\nsecond <<END\n  kept\nEND\n```\n"
	want := "echo '== line 3'\nfirst\necho '== line 10'\nsecond <<END\n  kept\nEND\n"
	if is := shellBlocks(page); is != want {
		t.Errorf("blocks are\n%s\nwant\n%s", is, want)
	}
}
