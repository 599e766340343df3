package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Binary is the path of the program under test: $STRAIT_BINARY, else one that is built
// from this tree, once. Call Remove when all tests have run.
var Binary = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("STRAIT_BINARY"); given != "" {
		return given, nil
	}
	dir, err := os.MkdirTemp("", "strait-program-")
	if err != nil {
		return "", err
	}
	built = dir
	if err := os.Chmod(dir, 0o755); err != nil { // gateways are nobody
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

// built is the folder of what Binary built; empty: nothing.
var built string

// Remove removes what Binary built.
func Remove() {
	if built != "" {
		_ = os.RemoveAll(built) // of the temporary folder, where leftovers go in time
	}
}
