//go:build e2e || nightly

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"strait.dev/strait/test/program"
)

// repository is the root of this repository, which contains the chart.
const repository = "../.."

// writeImage packs the program under test into an image with the chart's image name, and
// returns the archive and that name.
func writeImage(t *testing.T, dir string) (archive, name string) {
	t.Helper()
	binary, err := program.Binary()
	must(t, err)
	name = "strait.dev/strait:" + appVersion(t)
	archive = filepath.Join(dir, "strait.oci.tar")
	pack := exec.CommandContext(t.Context(), "go", "run", "strait.dev/strait/internal/ociimage", "-o", archive, "-name", name, binary)
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(pack.Args, " "), err, out)
	}
	return archive, name
}

// appVersion returns the version that the chart installs.
func appVersion(t *testing.T) string {
	t.Helper()
	chart, err := os.ReadFile(filepath.Join(repository, "charts/strait/Chart.yaml"))
	must(t, err)
	for line := range strings.Lines(string(chart)) {
		if version, ok := strings.CutPrefix(line, "appVersion:"); ok {
			return strings.Trim(strings.TrimSpace(version), `"`)
		}
	}
	t.Fatal(fmt.Errorf("charts/strait/Chart.yaml has no appVersion"))
	return ""
}
