//go:build lab || nightly

package rig

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"strait.dev/strait/bench/rig/traffic"
	"strait.dev/strait/internal/raceflag"
)

// asEnd makes this test binary run as an end of the traffic.
const asEnd = "as-an-end-of-the-traffic"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == asEnd {
		if traffic.Serve(struct {
			io.Reader
			io.WriteCloser
		}{os.Stdin, os.Stdout}) != nil {
			os.Exit(1)
		}
		return
	}
	status := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(status)
}

// programs builds the programs of the rig from this tree, once, and returns their
// directory.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rig-test-")
	if err != nil {
		return "", err
	}
	built = dir
	for program, pkg := range map[string]string{"strait": "strait.dev/strait/cmd/strait", "wireguard-go": "golang.zx2c4.com/wireguard"} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, program), pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(build.Args, " "), err, out)
		}
	}
	return dir, nil
})

// built is the directory of programs, or empty.
var built string

// newTestRig returns a rig whose programs are built from this tree.
func newTestRig(t *testing.T) *Rig {
	t.Helper()
	if missing := Missing(); missing != "" {
		t.Skip("rig left out: " + missing)
	}
	if raceflag.Enabled {
		t.Skip("rig left out under the race detector: this binary generates the traffic and would be too slow")
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Options{
		Strait: filepath.Join(dir, "strait"), WireGuardGo: filepath.Join(dir, "wireguard-go"), End: []string{self, asEnd},
		Repetitions: 1, Quick: true, Progress: t.Output(),
		Run: func(test string) bool {
			return test == string(NoGRO)+"/"+tcpName(1, forth) || test == string(NoGRO)+"/"+testFirstPacket
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if rest := left(t); len(rest) > 0 {
			t.Errorf("leftovers: %v", rest)
		}
	})
	return r
}

// left returns the leftovers of this process's rigs on the machine.
func left(t *testing.T) (all []string) {
	t.Helper()
	mine := fmt.Sprintf("%s%d", namePrefix, os.Getpid())
	for _, folder := range []string{"/run/netns", cgroupRoot, accountV1, sharesV1, unifiedAside} {
		found, err := filepath.Glob(filepath.Join(folder, mine+"*"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// placed returns a subject in its topology, for one test.
func placed(t *testing.T, r *Rig, s *Subject) *setting {
	t.Helper()
	p, err := r.place(s)
	t.Cleanup(func() {
		if err := p.remove(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// filter applies an nftables rule to the packets that cross gateway A. The rule may add to
// the set sources.
func filter(t *testing.T, p *setting, rule string) {
	t.Helper()
	rules := fmt.Sprintf(`add table ip known
delete table ip known
table ip known {
	set sources {
		type ipv4_addr . inet_service
		size 65535
		flags dynamic
	}
	chain forward {
		type filter hook forward priority filter;
		%s
	}
}`, rule)
	if err := p.a.gw.run(rules, "nft", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// sources returns the number of elements in the set of filter: one per source.
func sources(t *testing.T, p *setting) int {
	t.Helper()
	list := exec.Command("ip", "netns", "exec", p.a.gw.Name, "nft", "list", "set", "ip", "known", "sources")
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.Count(string(out), " . ") - 1 // one is in the type
}
