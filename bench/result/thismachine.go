//go:build linux

package result

import (
	"bufio"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const governorFile = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"

// ThisMachine describes the machine. Containers hide some values, which stay empty.
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
