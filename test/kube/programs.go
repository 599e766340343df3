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

// programTable lists the programs and their versions. Its hash names the directory where
// test/kube/prepare puts them, so that other versions are never used.
//
//go:embed programs
var programTable []byte

// programs are the paths of a cluster's programs.
type programs struct{ etcd, server string }

// Version is the version of the API server that KUBE_VERSION selects, one of those that the
// table has, like 1.31; empty: the usual one.
func Version() string { return os.Getenv("KUBE_VERSION") }

// findPrograms skips the test if programs are missing.
func findPrograms(t testing.TB) programs {
	t.Helper()
	server := "kube-apiserver"
	if Version() != "" {
		server += "-" + Version()
	}
	dir := Programs(t, "etcd", server)
	return programs{etcd: filepath.Join(dir, "etcd"), server: filepath.Join(dir, server)}
}

// Program returns the path of a program that test/kube/prepare builds, like helm. If it is
// missing, the test is skipped with the command that builds it.
func Program(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(Programs(t, name), name)
}

// Programs returns the directory of several programs. If one is missing, the test is
// skipped with the command that builds it.
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
