//go:build e2e || nightly

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands of docs/tutorials/start.md run verbatim, in order and in one shell.
func TestStartPageCommandsWork(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(repository, "docs/tutorials/start.md"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("left out: docs/tutorials/start.md has not been written yet")
	}
	must(t, err)
	script := shellBlocks(string(page))
	if script == "" {
		t.Fatal("docs/tutorials/start.md has no shell block; start them with ```sh")
	}
	w := newWorld(t)
	stage(t, "docs/tutorials/start.md", func(t *testing.T) {
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
