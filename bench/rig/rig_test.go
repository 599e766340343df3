package rig

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"strait.dev/strait/bench/result"
	"strait.dev/strait/bench/rig/traffic"
	"strait.dev/strait/internal/raceflag"
)

// asEnd makes this test binary an end of the traffic.
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

// programs builds from this tree what the rig runs, once, and returns the folder.
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

// built is the folder of programs, or empty.
var built string

// newTestRig is a rig whose programs are built from this tree.
func newTestRig(t *testing.T) *Rig {
	t.Helper()
	if missing := Missing(); missing != "" {
		t.Skip("rig left out: " + missing)
	}
	if raceflag.Enabled {
		t.Skip("rig left out under the race detector: this binary is the traffic's ends, whose speed counts")
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
			t.Errorf("left behind: %v", rest)
		}
	})
	return r
}

// left is what rigs of this process have left on the machine.
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

func TestEverySubjectCarriesTrafficAndNothingIsLeft(t *testing.T) {
	r := newTestRig(t)
	run := result.New("test", result.ThisMachine("test"), time.Now())
	if err := r.Measure(context.Background(), run); err != nil {
		t.Fatal(err)
	}
	measured := medians(run)
	for _, subject := range []string{nameP, nameStrait, nameStraitOver6, namePlain, nameOverlay, nameWireGuardGo} {
		f := figure{tcpName(1, forth), NoGRO, subject, unitThroughput}
		if rate, ok := measured(f); !ok || rate <= 0 {
			t.Errorf("%s carried %v bit/s (measured: %v)", subject, rate, ok)
		}
		f.unit = unitCPU
		if cpu, ok := measured(f); !ok || cpu <= 0 {
			t.Errorf("%s cost %v CPU-s/GB (measured: %v)", subject, cpu, ok)
		}
	}
}

func TestARunThatIsCutShortLeavesNothing(t *testing.T) {
	r := newTestRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	run := result.New("test", result.ThisMachine("test"), time.Now())
	if err := r.Measure(ctx, run); err == nil {
		t.Error("no error from a run that was cut short")
	}
}
