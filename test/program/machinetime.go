package program

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// MachineTime returns the time for which processors of the machine were busy, the sum of all, since it started. Its unit is
// 10 ms (USER_HZ, proc_stat(5)).
func MachineTime(t testing.TB) (busy time.Duration) {
	t.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(line)[1:] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if i != 3 && i != 4 && i < 8 { // idle and I/O wait; guest time is included in user
			busy += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return busy
}
