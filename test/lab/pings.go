package lab

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// MostRounds is how often a test is repeated that a busy machine has disturbed.
const MostRounds = 10

// pings are the lines of a ping.
type pings struct {
	output string
	Stop   func()
}

// pingInterval is the time between two requests.
const pingInterval = 50 * time.Millisecond

// StartPings pings until the test ends, or stop is called.
func StartPings(t *testing.T, from *Namespace, to netip.Addr) pings {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pings")
	output, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd := exec.Command("ping", "-n", "-i", fmt.Sprint(pingInterval.Seconds()), to.String())
	cmd.Stdout, cmd.Stderr = output, output
	if err := from.In(cmd.Start); err != nil {
		t.Fatal(err)
	}
	p := pings{file, sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})}
	t.Cleanup(p.Stop)
	return p
}

// pingsRead is what a ping has printed.
type pingsRead struct {
	Replies int
	Silence time.Duration // of the longest run of requests without a reply; a ping that does not run itself sends none
}

// Read returns what was printed so far.
func (p pings) Read(t *testing.T) (is pingsRead) {
	t.Helper()
	output, err := os.ReadFile(p.output)
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for line := range strings.Lines(string(output)) {
		_, rest, reply := strings.Cut(line, " icmp_seq=")
		var number int
		if n, _ := fmt.Sscanf(rest, "%d ttl=", &number); n == 0 || !reply || !strings.HasSuffix(line, "\n") {
			continue
		}
		if is.Replies++; is.Replies > 1 {
			is.Silence = max(is.Silence, time.Duration(number-last-1)*pingInterval)
		}
		last = number
	}
	return is
}
