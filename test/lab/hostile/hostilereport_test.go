//go:build lab || nightly

package hostile

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// row is the result of an attack.
type row struct {
	threat, name string
	sent         int
	rate         float64 // packets per second
	goodput      float64 // bytes per second
	cpu          share
	memory       [3]memory // before, during, after
	counted      counted
	seen         int // marked packets that passed
	passes, note string
}

// rowHeader names the columns of line.
const rowHeader = "| threat | attack | packets | per second | goodput | processors: gateways, lab, all | gateway A resident, MiB: before, during, after | heap | counted | came through |\n" +
	"|---|---|---:|---:|---:|---|---|---|---|---|\n"

// line formats the row in Markdown, with goodput as a fraction of the undisturbed median.
func (r row) line(median float64) string {
	var reasons []string
	for _, name := range slices.Sorted(maps.Keys(r.counted)) {
		reasons = append(reasons, fmt.Sprintf("%s %.0f", name, r.counted[name]))
	}
	came := fmt.Sprint(r.seen)
	if r.passes != "" && r.seen != 0 {
		came += ": " + r.passes
	}
	goodput := "none runs"
	if median > 0 {
		goodput = fmt.Sprintf("%.0f %%", 100*r.goodput/median)
	}
	name := r.name
	if r.note != "" {
		name += "; " + r.note
	}
	if r.memory == [3]memory{} { // not a flood, but a test of predictability
		return fmt.Sprintf("| %s | %s | %d | | | | | | | |", r.threat, name, r.sent)
	}
	mib := func(of func(m memory) int) string {
		return fmt.Sprintf("%.1f, %.1f, %.1f", float64(of(r.memory[0]))/1024, float64(of(r.memory[1]))/1024, float64(of(r.memory[2]))/1024)
	}
	return fmt.Sprintf("| %s | %s | %d | %.0f | %s | %.2f, %.2f, %.2f | %s | %s | %s | %s |", r.threat, name, r.sent, r.rate,
		goodput, r.cpu.gateways, r.cpu.lab, r.cpu.all, mib(func(m memory) int { return m.rss[0] }), mib(func(m memory) int { return m.heap[0] }), strings.Join(reasons, ", "), came)
}

// together merges several rows into one.
func together(threat, name string, rows []row) row {
	sum := row{threat: threat, name: name, counted: make(counted), memory: rows[0].memory}
	var seconds float64
	for _, r := range rows {
		sum.sent += r.sent
		sum.seen += r.seen
		seconds += float64(r.sent) / max(r.rate, 1)
		sum.cpu = share{max(sum.cpu.gateways, r.cpu.gateways), max(sum.cpu.lab, r.cpu.lab), max(sum.cpu.all, r.cpu.all)}
		for i := range r.memory[1].rss {
			sum.memory[1].rss[i] = max(sum.memory[1].rss[i], r.memory[1].rss[i])
			sum.memory[1].heap[i] = max(sum.memory[1].heap[i], r.memory[1].heap[i])
		}
		sum.memory[2] = r.memory[2]
		for reason, count := range r.counted {
			sum.counted[reason] += count
		}
	}
	sum.rate = float64(sum.sent) / seconds
	return sum
}

// median returns the goodput of the undisturbed windows.
func (h *hostile) median() float64 { return medianOf(h.calm) }

func medianOf(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// report prints the table, and writes it to the file requested by `make hostile`.
func (h *hostile) report(t *testing.T) {
	t.Helper()
	if len(h.rows) == 0 {
		return
	}
	var b strings.Builder
	b.WriteString(rowHeader)
	for _, r := range h.rows {
		b.WriteString(r.line(h.median()) + "\n")
	}
	t.Log("\n" + b.String())
	hostileMu.Lock()
	defer hostileMu.Unlock()
	hostileTables = append(hostileTables, table{title: h.title, text: b.String(), foot: h.foot()})
	writeHostileReport(t)
}

// foot returns the reference values of the table.
func (h *hostile) foot() string {
	if len(h.loads) == 0 {
		return ""
	}
	idle := func(part func(share) float64) float64 {
		var values []float64
		for _, s := range h.idle {
			values = append(values, part(s))
		}
		return medianOf(values)
	}
	slowest, fastest := slices.Min(h.calm), slices.Max(h.calm)
	others := idle(func(s share) float64 { return s.all - s.gateways - s.lab })
	caution := ""
	if others > float64(runtime.NumCPU())/4 {
		caution = "**Other programs were busy**, or the kernel was: goodput and shares of such a run say little. Repeat it on a machine at rest.\n\n"
	}
	return caution + fmt.Sprintf("Undisturbed, %d windows between the attacks: goodput %.3f Gbit/s (median; %.0f to %.0f %%), which is %.0f %% of "+
		"what the pair carries without a limit (%.2f Gbit/s); processors %.2f, %.2f, %.2f of %d.\n",
		len(h.calm), h.median()*8/1e9, 100*slowest/h.median(), 100*fastest/h.median(), 100*h.median()/h.straight, h.straight*8/1e9,
		idle(func(s share) float64 { return s.gateways }), idle(func(s share) float64 { return s.lab }),
		idle(func(s share) float64 { return s.all }), runtime.NumCPU())
}

// table is one part of the report.
type table struct{ title, text, foot string }

// hostileTables are the results of this run so far.
var (
	hostileMu     sync.Mutex
	hostileTables []table // guarded by hostileMu
)

// writeHostileReport writes the report so far.
func writeHostileReport(t *testing.T) {
	t.Helper()
	if hostileReport == "" {
		return
	}
	var b strings.Builder
	b.WriteString(hostileIntroduction)
	fmt.Fprintf(&b, "\nMeasured on %s at commit %s, on %d cores.\n", time.Now().UTC().Format(time.DateOnly), commit(), runtime.NumCPU())
	for _, part := range hostileTables {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n%s", part.title, part.text, part.foot)
	}
	if err := os.WriteFile(hostileReport, []byte(b.String()), 0o644); err != nil {
		t.Error(err)
	}
}

// commit is the commit of the working tree.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

const hostileIntroduction = `# Hostile traffic

` + "`" + `make hostile` + "`" + ` writes this page: two real gateways without privileges connect two clusters in network namespaces, and gateway A is attacked from its nodes, from its pods, from the internet, and from inside the tunnel by a peer with a valid key. Two TCP streams between pods run from the first attack to the last, IPv4 from A to B and IPv6 from B to A. The test fails if

- the SHA-256 sums of the streams differ between both ends;
- a packet that must be dropped comes through;
- drops are not counted under their reason;
- the heap of a gateway does not return to its size before the attacks within 5 % and 4 MiB;
- more than 256 MiB of a gateway are resident.

The gateways run with GOGC=2, so that the heap contains hardly any garbage. Resident memory grows once, when a flood touches memory that was only reserved before.

| column | meaning |
|---|---|
| goodput | relative to the median of the windows between the attacks. The streams are limited to two fifths of what the pair can carry, so an attack has CPU time of its own; below 100 % the attack took more than was left |
| processors | CPU cores in use: gateways, the lab (attackers and receivers), the whole machine. One small machine runs both gateways, both kernels and the lab |
| counted | drops as gateway/direction/reason, see [metrics](../reference/metrics.md); ` + "`" + `overflow` + "`" + ` are datagrams that the kernel dropped because the gateway's socket buffer was full. WireGuard does not count what it rejects itself (replays, sources outside of the peer's AllowedIPs) |
| came through | packets of the attack that the lab saw behind a gateway: between the gateway and a node, inside the tunnel, and at a pod. A packet that passes two of these places counts twice. Where the number is not 0, the text after it says why these packets are permitted: any pod may send them, and the receiver handles them |
`
