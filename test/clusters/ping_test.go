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
	"strings"
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

// both returns the addresses of pods in the families of a Peering.
func both(p *v1alpha1.Peering) []string {
	if slices.ContainsFunc(p.Status.Prefixes, func(s v1alpha1.SeenPrefix) bool { return s.CIDR == "fd00:10::/48" }) {
		return slices.Concat(podAddresses, podAddresses6)
	}
	return podAddresses
}

// stream is a ping that runs in the background.
type stream struct {
	cmd          *exec.Cmd
	out          bytes.Buffer
	backlogDrops uint64 // before it began
}

const streamInterval = 20 * time.Millisecond

// ping starts a stream to an address that already answers.
func ping(t *testing.T, from *netns.Namespace, to string) *stream {
	t.Helper()
	within(t, 20*time.Second, "ping to "+to, func() error {
		out, err := from.Try("ping", "-n", "-c", "1", "-W", "1", to)
		if err != nil {
			return errors.New(out)
		}
		return nil
	})
	s := &stream{cmd: exec.Command("ping", "-n", "-i", fmt.Sprint(streamInterval.Seconds()), to), backlogDrops: backlogDrops(t)}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	must(t, from.In(s.cmd.Start))
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill() // it may have ended already
			_ = s.cmd.Wait()
		}
	})
	return s
}

// outage ends the stream, and returns the longest time without replies and the number of
// missing replies.
func (s *stream) outage(t *testing.T) (longest time.Duration, lost int) {
	t.Helper()
	time.Sleep(25 * streamInterval) // recovery within milliseconds must be visible in some replies
	must(t, s.cmd.Process.Signal(os.Interrupt))
	_ = s.cmd.Wait() // the output contains the error
	longest, lost = outage(t, s.out.String())
	if n := backlogDrops(t) - s.backlogDrops; lost > 0 && n > 0 {
		t.Logf("the machine dropped %d packets of all network namespaces: more than net.core.netdev_max_backlog waited for a processor", n)
	}
	return longest, lost
}

var sequence = regexp.MustCompile(`icmp_seq=(\d+) ttl`)

// outage computes the result from the output of ping. A reordered reply is not lost: each
// link has its own path.
func outage(t *testing.T, printed string) (longest time.Duration, lost int) {
	t.Helper()
	var answered []int
	for _, m := range sequence.FindAllStringSubmatch(printed, -1) {
		n, err := strconv.Atoi(m[1])
		must(t, err)
		answered = append(answered, n)
	}
	if len(answered) == 0 {
		t.Fatalf("no reply:\n%s", printed)
	}
	slices.Sort(answered)
	last := 0
	for _, n := range slices.Compact(answered) {
		if missing := n - last - 1; missing > 0 {
			lost += missing
			longest = max(longest, time.Duration(missing)*streamInterval)
			t.Logf("no reply to %d to %d of %d", last+1, n-1, answered[len(answered)-1])
		}
		last = n
	}
	for line := range strings.Lines(printed) {
		if lost > 0 && !strings.Contains(line, " bytes from ") { // an ICMP error, for example
			t.Log(strings.TrimSpace(line))
		}
	}
	return longest, lost
}

// losses matches the counters of gateways and kernels that tell of lost packets.
var losses = regexp.MustCompile(`(?i)drop|discard|error|overflow|overlimit|fail|lost|rejected|gaps|noroute|unreach`)

// lossCounters are commands that print counters of a network namespace, a name and a value per line.
var lossCounters = []string{
	"nstat -a -s",
	`awk 'NR > 2 { sub(":", " "); print $1 "/rx_errors", $4; print $1 "/rx_dropped", $5; print $1 "/tx_errors", $12; print $1 "/tx_dropped", $13 }' /proc/net/dev`,
	`awk 'NR == 1 { split($0, name) } NR > 1 { for (i = 1; i <= NF; i++) if ($i !~ /^0+$/) print "conntrack/" name[i], "0x" $i }' /proc/net/stat/nf_conntrack`,
}

// tellLosses logs where packets of a stream may have been lost.
func (p *pair) tellLosses(t *testing.T) {
	t.Helper()
	tell := func(of, counters string) {
		for line := range strings.Lines(counters) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] != "#" && losses.MatchString(fields[0]) && fields[1] != "0" {
				t.Logf("%s: %s", of, strings.TrimSpace(line))
			}
		}
	}
	for _, c := range []*cluster{p.a, p.b} {
		for name, g := range c.gateways {
			text, _, err := g.get("/metrics")
			if err != nil {
				t.Logf("%s/%s: %v", c.name, name, err)
			}
			tell(c.name+"/"+name, text)
		}
		for i := range c.pods {
			for of, n := range map[string]*netns.Namespace{"node": c.nodes[i].Namespace, "pod": c.pods[i]} {
				of = fmt.Sprintf("%s of %s/%s", of, c.name, nodeName(i))
				for _, command := range lossCounters {
					text, err := n.Try("sh", "-c", command)
					if err != nil {
						t.Logf("%s: %v", command, err)
					}
					tell(of, text)
				}
			}
		}
	}
}
