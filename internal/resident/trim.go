// Package resident reduces the resident memory of a program.
package resident

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Trim removes the pages of the program's own file from the resident memory of the process. Call it after the start, which
// reads most of them once: initialisation of packages, command line, configuration. Those that are used again come back
// with page faults, without reading the disk as long as the kernel caches the file. It reads /proc/self/smaps and takes a
// few milliseconds. A failure costs only memory, and is logged.
func Trim(log *slog.Logger) {
	if err := trim(); err != nil {
		log.Debug("the memory of the start stays resident", "error", err)
	}
}

func trim() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("trim resident memory: %w", err)
	}
	mappings, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("trim resident memory: %w", err)
	}
	for _, m := range unchanged(mappings, program) {
		// Pages of a private mapping that is not written are read from the file again (madvise(2)).
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("trim resident memory: %w", os.NewSyscallError("madvise", errno))
		}
	}
	return nil
}

// mapping is a part of the memory of a process.
type mapping struct{ start, end uintptr }

// unchanged returns the mappings of a file that have the contents of the file, by /proc/PID/smaps (proc_pid_smaps(5)): they
// cannot be written, and no page of them was written before, for instance by a relocation.
func unchanged(smaps []byte, file string) (all []mapping) {
	var m mapping
	candidate := false // the lines are about m, which cannot be written
	for lines := bufio.NewScanner(bytes.NewReader(smaps)); lines.Scan(); {
		line := lines.Text()
		fields := strings.Fields(line)
		switch {
		case len(fields) < 2:
		case !strings.HasSuffix(fields[0], ":"): // START-END PERMISSIONS OFFSET DEVICE INODE FILE
			start, end, _ := strings.Cut(fields[0], "-")
			from, err := strconv.ParseUint(start, 16, 64)
			to, failed := strconv.ParseUint(end, 16, 64)
			permissions := fields[1]
			candidate = err == nil && failed == nil && strings.HasSuffix(line, " "+file) &&
				strings.HasPrefix(permissions, "r-") && strings.HasSuffix(permissions, "p")
			m = mapping{uintptr(from), uintptr(to)}
		case candidate && fields[0] == "Anonymous:" && fields[1] == "0":
			all = append(all, m)
		}
	}
	return all
}
