//go:build apiserver || nightly

package clusters

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/netns"
)

// pingAll pings every pod of one cluster from every pod of the other.
func pingAll(t *testing.T, from, to *cluster, p *v1alpha1.Peering) {
	t.Helper()
	for i, pod := range from.pods {
		for _, address := range both(p) {
			at := seen(t, p, address)
			if out, err := pod.Try("ping", "-n", "-c", "3", "-i", "0.05", "-W", "2", at); err != nil {
				t.Errorf("pod %d of cluster %s does not reach %s of cluster %s at %s:\n%s", i+1, from.name, address, to.name, at, out)
			}
		}
	}
}

// both is the addresses of pods in the families that a Peering has.
func both(p *v1alpha1.Peering) []string {
	if slices.ContainsFunc(p.Status.Prefixes, func(s v1alpha1.SeenPrefix) bool { return s.CIDR == "fd00:10::/48" }) {
		return slices.Concat(podAddresses, podAddresses6)
	}
	return podAddresses
}

// stream is a ping that goes on while something happens.
type stream struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

const streamInterval = 20 * time.Millisecond

// ping begins a stream to an address that answers already.
func ping(t *testing.T, from *netns.Namespace, to string) *stream {
	t.Helper()
	within(t, 20*time.Second, "ping to "+to, func() error {
		out, err := from.Try("ping", "-n", "-c", "1", "-W", "1", to)
		if err != nil {
			return errors.New(out)
		}
		return nil
	})
	s := &stream{cmd: exec.Command("ping", "-n", "-i", fmt.Sprint(streamInterval.Seconds()), to)}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	must(t, from.In(s.cmd.Start))
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill() // it may have ended by itself
			_ = s.cmd.Wait()
		}
	})
	return s
}

// outage ends the stream, and says for how long there was no answer at a stretch, and how
// many were missing in all.
func (s *stream) outage(t *testing.T) (longest time.Duration, lost int) {
	t.Helper()
	time.Sleep(25 * streamInterval) // what was repaired in milliseconds has to show in some answers
	must(t, s.cmd.Process.Signal(os.Interrupt))
	_ = s.cmd.Wait() // what it printed tells
	return outage(t, s.out.String())
}

var sequence = regexp.MustCompile(`icmp_seq=(\d+) ttl`)

// outage reads it from what ping printed. An answer that is overtaken is not lost: each
// link has a way of its own.
func outage(t *testing.T, printed string) (longest time.Duration, lost int) {
	t.Helper()
	var answered []int
	for _, m := range sequence.FindAllStringSubmatch(printed, -1) {
		n, err := strconv.Atoi(m[1])
		must(t, err)
		answered = append(answered, n)
	}
	if len(answered) == 0 {
		t.Fatalf("no answer at all:\n%s", printed)
	}
	slices.Sort(answered)
	last := 0
	for _, n := range slices.Compact(answered) {
		if missing := n - last - 1; missing > 0 {
			lost += missing
			longest = max(longest, time.Duration(missing)*streamInterval)
			t.Logf("no answer to %d to %d of %d", last+1, n-1, answered[len(answered)-1])
		}
		last = n
	}
	return longest, lost
}
