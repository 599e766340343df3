package kube

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// prepare is the script that builds the programs. Its hash names the cache, so that
// another version of it never finds programs of this one.
//
//go:embed prepare
var prepare []byte

// programs are the paths of what a cluster consists of.
type programs struct{ etcd, server string }

// findPrograms skips the test where the programs are missing.
func findPrograms(t testing.TB) programs {
	t.Helper()
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		must(t, err)
		cache = filepath.Join(home, ".cache")
	}
	hash := sha256.Sum256(prepare)
	dir := filepath.Join(cache, "strait", "kube", hex.EncodeToString(hash[:8]))
	found := programs{etcd: filepath.Join(dir, "etcd"), server: filepath.Join(dir, "kube-apiserver")}
	for _, program := range []string{found.etcd, found.server} {
		if _, err := os.Stat(program); err != nil {
			t.Skipf("tests with real API servers left out: %s has not been built; run: test/kube/prepare", filepath.Base(program))
		}
	}
	return found
}
