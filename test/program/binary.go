package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Binary returns the path of the program under test: $STRAIT_BINARY, else one built from
// this tree, once. Call Remove after all tests.
var Binary = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("STRAIT_BINARY"); given != "" {
		return given, nil
	}
	dir, err := os.MkdirTemp("", "strait-program-")
	if err != nil {
		return "", err
	}
	built = dir
	if err := os.Chmod(dir, 0o755); err != nil { // gateways run as user nobody
		return "", err
	}
	path := filepath.Join(dir, "strait")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "strait.dev/strait/cmd/strait")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(build.Args, " "), err, out)
	}
	return path, nil
})

// built is the directory of what Binary built, or empty.
var built string

// Remove removes what Binary built.
func Remove() {
	if built != "" {
		_ = os.RemoveAll(built) // a leftover in the temporary directory does no harm
	}
}
