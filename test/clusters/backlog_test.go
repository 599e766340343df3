//go:build apiserver || lab || nightly

package clusters

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// backlogDrops returns how many packets the machine has dropped between two of its devices, in any
// network namespace, because more than net.core.netdev_max_backlog waited for a processor.
func backlogDrops(t *testing.T) (count uint64) {
	t.Helper()
	text, err := os.ReadFile("/proc/net/softnet_stat") // one line per processor; the second column is dropped packets, in hex
	must(t, err)
	for line := range strings.Lines(string(text)) {
		n, err := strconv.ParseUint(strings.Fields(line)[1], 16, 64)
		must(t, err)
		count += n
	}
	return count
}
