//go:build e2e || nightly

package e2e

import (
	"path/filepath"
	"testing"
)

// followReadme runs the commands of README.md, which join the clusters and remove everything
// again, after the image that they build is on the nodes.
func (w *world) followReadme(t *testing.T) {
	t.Helper()
	stage(t, "make build image", func(t *testing.T) {
		w.do(t, "", "make", "build", "image")
		archive, err := filepath.Abs(filepath.Join(repository, "bin/strait.oci.tar"))
		must(t, err)
		for _, c := range w.clusters {
			c.LoadImage(t, archive)
		}
	})
	w.follow(t, "README.md")
}
