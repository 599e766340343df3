//go:build apiserver

package chart

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/program"
)

// makeRelease makes a release for this machine's platform, and returns its directory.
func makeRelease(t *testing.T, version string) string {
	t.Helper()
	dir, platform := t.TempDir(), "linux-"+runtime.GOARCH
	dist := filepath.Join(dir, "dist")
	run := exec.CommandContext(t.Context(), "make", "dist", "VERSION="+version, "PLATFORMS="+platform, "RELEASE_PLATFORMS="+platform,
		"DIST="+dist, "STAGING="+filepath.Join(dir, "staging"))
	run.Dir = "../.."
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(run.Args, " "), err, out)
	}
	return dist
}

// What a release has works by itself: the chart installs its image, krew accepts the manifest,
// and the command line needs neither a home nor other programs.
func TestTheFilesOfAReleaseWork(t *testing.T) {
	t.Parallel()
	dist := makeRelease(t, "v0.1.0")

	t.Run("chart", func(t *testing.T) {
		t.Parallel()
		cluster := kube.Start(t)
		access := []string{"KUBECONFIG=" + program.Kubeconfig(t, t.TempDir(), "admin", cluster.Admin())}
		_, err := helm(t, access, "install", "strait", filepath.Join(dist, "strait-0.1.0.tgz"), "--namespace", release, "--create-namespace")
		must(t, err)
		controller, err := cluster.Kubernetes().AppsV1().Deployments(release).Get(t.Context(), "strait-controller", metav1.GetOptions{})
		must(t, err)
		if is, want := controller.Spec.Template.Spec.Containers[0].Image, "strait.dev/strait@"+imageDigest(t, filepath.Join(dist, "strait-0.1.0-image.oci.tar")); is != want {
			t.Errorf("the controller runs the image %s, and the release has %s", is, want)
		}
		if found := definitions(t, cluster); len(found) != 8 {
			t.Errorf("the CRDs are %q", found)
		}
	})
	t.Run("krew", func(t *testing.T) {
		t.Parallel()
		validate := exec.CommandContext(t.Context(), kube.Program(t, "validate-krew-manifest"), "-skip-install", "-manifest", filepath.Join(dist, "strait.yaml"))
		if out, err := validate.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("command line", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		access := program.Kubeconfig(t, dir, "admin", kube.Start(t).Admin())
		unpack(t, filepath.Join(dist, "strait-0.1.0-linux-"+runtime.GOARCH+".tar.gz"), dir)
		for _, c := range []struct {
			command, want string
			fails         bool
		}{
			{"version", "strait v0.1.0 (", false}, {"demo", "steps passed in", false}, {"uninstall --help", `(default "strait.dev/strait:0.1.0")`, false},
			{"preflight --no-pods --kubeconfig " + access, ": all required resources can be read", true}, // the cluster has no node
		} {
			run := exec.CommandContext(t.Context(), filepath.Join(dir, "strait"), strings.Fields(c.command)...)
			run.Env = []string{"HOME=" + t.TempDir(), "PATH=/nonexistent"}
			if out, err := run.CombinedOutput(); (err != nil) != c.fails || !strings.Contains(string(out), c.want) {
				t.Errorf("strait %s: %v, want %q:\n%s", c.command, err, c.want, out)
			}
		}
		page, err := os.ReadFile(filepath.Join(dir, "man/man1/strait-peer.1"))
		must(t, err)
		script, err := os.ReadFile(filepath.Join(dir, "completions/strait.bash"))
		must(t, err)
		if !strings.Contains(string(page), "remote-context") || !strings.Contains(string(page), "strait v0.1.0") || !strings.Contains(string(script), "__strait_") {
			t.Errorf("the man page is\n%s\nand the completion script\n%s", page, script)
		}
	})
}

// imageDigest returns the digest that pins the image of an archive in all registries.
func imageDigest(t *testing.T, archive string) string {
	t.Helper()
	f, err := os.Open(archive)
	must(t, err)
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		must(t, err)
		if h.Name != "index.json" {
			continue
		}
		var index struct{ Manifests []struct{ Digest string } }
		must(t, json.NewDecoder(r).Decode(&index))
		return index.Manifests[0].Digest
	}
}

// unpack writes the files of an archive into a directory.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		path := filepath.Join(dir, h.Name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		content, err := io.ReadAll(r)
		must(t, err)
		must(t, os.WriteFile(path, content, os.FileMode(h.Mode)))
	}
}
