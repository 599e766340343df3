package result

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine describes what the figures of a run depend on, apart from the code.
type Machine struct {
	Kernel     string `json:"kernel"`
	CPU        string `json:"cpu"`                // model name
	Cores      int    `json:"cores"`              // logical cores available to this process
	Governor   string `json:"governor,omitempty"` // CPU frequency governor; empty if it cannot be read
	Memory     uint64 `json:"memory"`             // bytes
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Go         string `json:"go"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	Strait     string `json:"strait"` // version
}

const governorFile = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"

// ThisMachine describes the machine and the process. Unavailable values stay empty:
// containers hide some of them.
func ThisMachine(version string) Machine {
	m := Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(),
		Cores: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0), Strait: version,
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		m.CPU = field(f, "model name")
		f.Close()
	}
	if f, err := os.Open("/proc/meminfo"); err == nil {
		m.Memory = kibibytes(field(f, "MemTotal"))
		f.Close()
	}
	if text, err := os.ReadFile(governorFile); err == nil {
		m.Governor = strings.TrimSpace(string(text))
	}
	return m
}

// field returns the first value of a name in a file of lines "name : value".
func field(from io.Reader, name string) string {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// kibibytes parses "16384 kB", where the kernel means KiB, into bytes.
func kibibytes(text string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimSuffix(text, " kB"), 10, 64)
	return n << 10
}

// String formats the machine as one line.
func (m Machine) String() string {
	line := fmt.Sprintf("%s, %d cores (GOMAXPROCS %d), %.0f GiB, %s %s %s, %s, strait %s",
		orUnknown(m.CPU, "CPU"), m.Cores, m.GOMAXPROCS, float64(m.Memory)/(1<<30), m.OS, m.Kernel, m.Arch, m.Go, m.Strait)
	if m.Governor != "" {
		line += ", governor " + m.Governor
	}
	return line
}

func orUnknown(text, what string) string {
	if text == "" {
		return "unknown " + what
	}
	return text
}

// Differences lists the properties in which another machine would give other figures,
// except for the version of strait, which is what runs are compared for.
func (m Machine) Differences(other Machine) (all []string) {
	for _, f := range []struct {
		name string
		a, b any
	}{
		{"kernel", m.Kernel, other.Kernel},
		{"CPU", m.CPU, other.CPU},
		{"cores", m.Cores, other.Cores},
		{"governor", m.Governor, other.Governor},
		{"architecture", m.Arch, other.Arch},
		{"Go", m.Go, other.Go},
		{"GOMAXPROCS", m.GOMAXPROCS, other.GOMAXPROCS},
	} {
		if f.a != f.b {
			all = append(all, fmt.Sprintf("%s: %v, then %v", f.name, f.a, f.b))
		}
	}
	return all
}
