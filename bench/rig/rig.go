package rig

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"strait.dev/strait/internal/netns"
	"strait.dev/strait/node/genl"
)

// Options select what is measured and with which programs.
type Options struct {
	// Strait is the binary under test; End is the command that runs an end of the traffic
	// (it must call traffic.Serve on its standard input and output).
	Strait string
	End    []string

	WireGuardGo string // wireguard-go of the peer
	Baseline    string // another strait binary, measured in addition to Strait; may be empty
	Custom      []Custom

	Only        []string               // subjects in addition to Baseline and Custom; empty: all
	Run         func(test string) bool // filters tests by MODE/NAME; nil: all
	All         bool                   // include optional tests; otherwise only if Only and Run match no usual one
	Repetitions int
	Quick       bool // short measurements

	Progress io.Writer // one line per step; nil: none
}

// Rig is the shared state of all topologies. Only one goroutine may use it.
type Rig struct {
	Options
	dir      string // configurations, keys, logs
	cgroups  *cgroups
	softirqd []string
	devices  int    // WireGuard devices created so far
	strait   string // copies of the binaries under test
	baseline string // empty if there is none

	kernelWireGuard bool // whether the kernel supports it
}

// packages are the Debian packages of the programs that the rig runs.
var packages = map[string]string{
	"ip": "iproute2", "nft": "nftables", "setpriv": "util-linux",
}

// Missing returns why the rig cannot run and how to fix that, or an empty text.
func Missing() string {
	if os.Geteuid() != 0 {
		return "network namespaces need root; run it with sudo"
	}
	var lacking []string
	for tool, of := range packages {
		if _, err := exec.LookPath(tool); err != nil {
			lacking = append(lacking, of)
		}
	}
	slices.Sort(lacking)
	if len(lacking) > 0 {
		return "not installed: " + strings.Join(lacking, ", ") + "; run: apt-get install -y " + strings.Join(lacking, " ")
	}
	return ""
}

// New prepares a rig. The caller must close it.
func New(o Options) (r *Rig, err error) {
	if missing := Missing(); missing != "" {
		return nil, errors.New(missing)
	}
	r = &Rig{Options: o, softirqd: findSoftirqd()}
	netns.RemoveAbandoned(namePrefix)
	removeStaleDirs(os.TempDir())
	if r.dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid())); err != nil {
		return nil, err
	}
	// The gateways run as user nobody and read their binary and configuration here.
	err = os.Chmod(r.dir, 0o755)
	if err == nil {
		r.kernelWireGuard, err = hasKernelWireGuard()
	}
	if err == nil {
		r.strait, err = r.bring(o.Strait, nameStrait)
	}
	if err == nil && o.Baseline != "" {
		r.baseline, err = r.bring(o.Baseline, nameBaseline)
	}
	if err == nil {
		r.cgroups, err = newCgroups()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(r.dir))
	}
	return r, nil
}

// dirPrefix is the prefix of the directory of a rig; the PID follows, as in the names of its other objects.
const dirPrefix = "strait-rig-"

// removeStaleDirs removes the directories of rigs that were killed: each has copies of programs, and keys.
func removeStaleDirs(parent string) {
	stale, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	for _, dir := range stale {
		if netns.Abandoned(dirPrefix, filepath.Base(dir)) {
			_ = os.RemoveAll(dir) // another process may remove it at the same time
		}
	}
}

func hasKernelWireGuard() (bool, error) {
	c, err := genl.Open()
	if err != nil {
		return false, err
	}
	has, err := c.Has(genl.WireGuardFamily)
	return has, errors.Join(err, c.Close())
}

// bring copies a program to a directory from which user nobody can run it, in small pieces, as container runtimes unpack
// images. After one large write the file is cached in large folios, each of which is mapped as a whole by the first fault
// in it (Linux 6.18): then nearly all of the program counts as resident memory of the gateway, 32 MiB instead of 12.
func (r *Rig) bring(program, name string) (copied string, err error) {
	from, err := os.Open(program)
	if err != nil {
		return "", fmt.Errorf("the gateway under test: %w", err)
	}
	defer from.Close()
	copied = filepath.Join(r.dir, name)
	to, err := os.OpenFile(copied, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return "", err
	}
	// The wrappers hide the methods by which io.Copy would use large pieces.
	_, err = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, pieceOfImage))
	return copied, errors.Join(err, to.Close())
}

// pieceOfImage is the size in which containerd writes the files of an image.
const pieceOfImage = 32 << 10

// Close removes what New created. Settings must be removed before.
func (r *Rig) Close() error {
	return errors.Join(r.cgroups.remove(), os.RemoveAll(r.dir))
}

func (r *Rig) report(format string, args ...any) {
	if r.Progress != nil {
		fmt.Fprintf(r.Progress, format+"\n", args...)
	}
}
