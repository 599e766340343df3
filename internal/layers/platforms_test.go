package layers

import (
	"fmt"
	"go/build"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// elsewhere are the platforms other than Linux for which the command line builds.
var elsewhere = []string{"darwin", "windows"}

// linuxAPI are the packages that exist, or have a meaning, on Linux only: paths, or prefixes
// ending in "/".
var linuxAPI = []string{
	"golang.org/x/sys/unix", "github.com/vishvananda/", "github.com/google/nftables", "github.com/google/nftables/", "github.com/mdlayher/",
}

// builtFor reports whether a file is built for a platform.
func builtFor(t *testing.T, platform string, f file) bool {
	t.Helper()
	c := build.Default
	c.GOOS, c.CgoEnabled, c.BuildTags = platform, false, nil
	is, err := c.MatchFile(filepath.Join("../..", f.pkg), filepath.Base(f.name))
	if err != nil {
		t.Fatal(err)
	}
	return is
}

func TestFilesThatUseTheAPIOfLinuxAreBuiltForLinuxOnly(t *testing.T) {
	t.Parallel()
	for _, f := range files(t) {
		if within(f.pkg, aside) {
			continue
		}
		for _, imported := range f.imports {
			if slices.ContainsFunc(linuxAPI, func(p string) bool { return ban{path: p}.forbids(imported) }) {
				for _, platform := range elsewhere {
					if builtFor(t, platform, f) {
						t.Errorf("%s imports %s, but is also built for %s: begin it with //go:build linux", f.name, imported, platform)
					}
				}
			}
		}
	}
}

func TestOperatorsCommandsImportNoPackageThatNeedsLinux(t *testing.T) {
	t.Parallel()
	var product []file
	for _, f := range files(t) {
		if !within(f.pkg, aside) {
			product = append(product, f)
		}
	}
	for _, platform := range elsewhere {
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
			for _, problem := range missing(product, func(f file) bool { return builtFor(t, platform, f) }, "cmd/strait", "operate") {
				t.Errorf("%s on %s: leave it to a file with //go:build linux, or move what both need to a package that builds everywhere", problem, platform)
			}
		})
	}
}

// missing returns the imports of packages without a file that is built, by packages that
// these roots, or packages below them, import directly or indirectly, once for each pair: like "operate/verify
// (operate/verify/run.go) imports underlay, which has no files".
func missing(all []file, built func(file) bool, roots ...string) (problems []string) {
	files := make(map[string][]file) // built, by package
	for _, f := range all {
		if built(f) {
			files[f.pkg] = append(files[f.pkg], f)
		}
	}
	by := make(map[string]string) // the path of imports to each package
	var next []string
	for _, f := range all {
		if within(f.pkg, roots) && by[f.pkg] == "" {
			by[f.pkg] = f.pkg
			next = append(next, f.pkg)
		}
	}
	for len(next) > 0 {
		pkg := next[0]
		next = next[1:]
		reported := make(map[string]bool)
		for _, f := range files[pkg] {
			for _, imported := range f.imports {
				other, ours := strings.CutPrefix(imported, module)
				switch {
				case !ours:
				case reported[other]:
				case len(files[other]) == 0:
					reported[other] = true
					problems = append(problems, fmt.Sprintf("%s (%s) imports %s, which has no files", by[pkg], f.name, other))
				case by[other] == "":
					by[other] = by[pkg] + " → " + other
					next = append(next, other)
				}
			}
		}
	}
	return problems
}

func TestImportsOfMissingPackagesAreFound(t *testing.T) {
	t.Parallel()
	all := []file{
		{name: "cmd/strait/main.go", pkg: "cmd/strait", imports: []string{"os", module + "operate/verify", module + "config"}},
		{name: "cmd/strait/gateway_linux.go", pkg: "cmd/strait", imports: []string{module + "underlay"}},
		{name: "operate/verify/run.go", pkg: "operate/verify", imports: []string{module + "tun"}},
		{name: "tun/link.go", pkg: "tun", imports: []string{module + "underlay"}},
		{name: "tun/tun.go", pkg: "tun", imports: []string{module + "underlay", module + "config"}},
		{name: "underlay/socket_linux.go", pkg: "underlay"},
		{name: "config/config.go", pkg: "config"},
		{name: "bench/run.go", pkg: "bench", imports: []string{module + "underlay"}},
	}
	portable := func(f file) bool { return !strings.HasSuffix(f.name, "_linux.go") }
	want := []string{"operate/verify → tun (tun/link.go) imports underlay, which has no files"}
	if got := missing(all, portable, "cmd/strait", "operate"); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if got := missing(all, func(file) bool { return true }, "cmd/strait", "operate"); got != nil {
		t.Errorf("with all files, found %q", got)
	}
}
