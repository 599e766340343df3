package kube

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// programTable lists the programs and their versions. Its hash names the folder that
// test/kube/prepare puts them into, so that other versions are never found.
//
//go:embed programs
var programTable []byte

// programs are the paths of what a cluster consists of.
type programs struct{ etcd, server string }

// findPrograms skips the test where the programs are missing.
func findPrograms(t testing.TB) programs {
	t.Helper()
	dir := Programs(t, "etcd", "kube-apiserver")
	return programs{etcd: filepath.Join(dir, "etcd"), server: filepath.Join(dir, "kube-apiserver")}
}

// Program is the path of a program that test/kube/prepare builds, like helm. A missing
// program skips the test with the command that builds it.
func Program(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(Programs(t, name), name)
}

// Programs is the folder of several programs. Missing programs skip the test with the
// command that builds them.
func Programs(t testing.TB, names ...string) string {
	t.Helper()
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		must(t, err)
		cache = filepath.Join(home, ".cache")
	}
	hash := sha256.Sum256(programTable)
	dir := filepath.Join(cache, "strait", "programs", hex.EncodeToString(hash[:8]))
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Skipf("left out: %s has not been built; run: test/kube/prepare %s", name, strings.Join(names, " "))
		}
	}
	return dir
}
