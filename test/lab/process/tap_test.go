//go:build lab || nightly

package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	captured "strait.dev/strait/internal/capture"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/lab"
	"strait.dev/strait/test/program"
)

// withSockets gives each gateway a local socket, in a directory that it can write to.
func withSockets(t *testing.T) (o lab.Options, socket func(s *lab.Site) string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "strait")
	if err == nil {
		err = errors.Join(os.Chown(dir, lab.Unprivileged, lab.Unprivileged), os.Chmod(dir, 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = func(s *lab.Site) string { return filepath.Join(dir, s.Name+".sock") }
	o.Configure = func(s *lab.Site, _ *lab.GatewayConfig) { s.Gateway.Flags = []string{"--socket", socket(s)} }
	return o, socket
}

// straitCapture is a running `strait capture`, as the gateway's unprivileged user.
type straitCapture struct {
	cmd    *exec.Cmd
	file   string
	errors bytes.Buffer
	ended  chan struct{} // closed when the process has ended, with err
	err    error
}

// startCapture returns when packets are being recorded.
func startCapture(t *testing.T, socket string, args ...string) *straitCapture {
	t.Helper()
	binary, err := program.Binary()
	if err != nil {
		t.Fatal(err)
	}
	c := &straitCapture{ended: make(chan struct{}), file: filepath.Join(filepath.Dir(socket), fmt.Sprintf("%d.pcapng", time.Now().UnixNano()))}
	args = append([]string{"--reuid", fmt.Sprint(lab.Unprivileged), "--regid", fmt.Sprint(lab.Unprivileged), "--clear-groups", "--bounding-set=-all",
		"--no-new-privs", "--pdeathsig", "KILL", binary, "capture", "--socket", socket, "--file", c.file}, args...)
	c.cmd = exec.Command("setpriv", args...)
	c.cmd.Stderr = &c.errors
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() }) // fails if it has ended, as it should
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	lab.Eventually(t, "the capture begins", func() bool {
		info, err := os.Stat(c.file)
		begun := err == nil && info.Size() > 0
		select {
		case <-c.ended:
			if !begun {
				t.Fatalf("strait capture: %v\n%s", c.err, c.errors.String())
			}
		default:
		}
		return begun
	})
	return c
}

// packets returns the packets in the file after the capture has ended, by interface.
func (c *straitCapture) packets(t *testing.T) map[string][][]byte {
	t.Helper()
	if <-c.ended; c.err != nil {
		t.Fatalf("strait capture: %v\n%s", c.err, c.errors.String())
	}
	file, err := os.Open(c.file)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found, reader := make(map[string][][]byte), captured.NewReader(file)
	for {
		_, p, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if p != nil {
			found[p.Interface] = append(found[p.Interface], bytes.Clone(p.Data))
		}
	}
}

// end interrupts the capture like Ctrl-C.
func (c *straitCapture) end(t *testing.T) map[string][][]byte {
	t.Helper()
	if err := c.cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	return c.packets(t)
}

// between counts packets from one address to another with the given payload, or any.
func between(packets [][]byte, src, dst netip.Addr, carrying string) (n int) {
	var ip packet.IP
	for _, b := range packets {
		if packet.Parse(b, &ip) == packet.FaultNone && ip.Src == src && ip.Dst == dst && bytes.Contains(b, []byte(carrying)) {
			n++
		}
	}
	return n
}

func TestCaptureShowsAPingAtEveryStage(t *testing.T) {
	t.Parallel()
	o, socket := withSockets(t)
	top := lab.Build(t, o)
	// The payload of each ping, to distinguish it from other packets.
	const marker, pattern = "strait!!", "7374726169742121"
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		c := startCapture(t, socket(w.Site), "--stage", "inner,tunnel,overlay,wireguard")
		lab.Ping(t, w.From, w.Seen, 3, "-p", pattern, "-s", "64")
		found := c.end(t)
		underlay, node := w.Site.Underlay, w.Site.Bridge4
		if underlay.Is6() {
			node = w.Site.Bridge6
		}
		wan, farWAN := w.Site.Endpoint, w.FarSite.Endpoint
		for _, want := range []struct {
			in       string
			src, dst netip.Addr
			carrying string
		}{
			{"inner-from-node", w.Src, w.Seen, marker},
			{"tunnel-out", w.Src, w.Real, marker},
			{"tunnel-in", w.Real, w.Src, marker},
			{"inner-to-node", w.Seen, w.Src, marker},
			{"overlay-from-node", node, underlay, marker},
			{"overlay-to-node", underlay, node, marker},
			{"wireguard-out", wan, farWAN, ""},
			{"wireguard-in", farWAN, wan, ""},
		} {
			if n := between(found[want.in], want.src, want.dst, want.carrying); n < 3 {
				t.Errorf("%s: %d of %d packets are from %v to %v with %q, want 3", want.in, n, len(found[want.in]), want.src, want.dst, want.carrying)
			}
		}
		for _, in := range []string{"wireguard-out", "wireguard-in"} {
			for _, b := range found[in] {
				if bytes.Contains(b, []byte(marker)) {
					t.Errorf("%s: the ping can be read", in)
				}
			}
		}
		if !strings.HasSuffix(c.errors.String(), "none lost\n") {
			t.Errorf("stderr is %q", c.errors.String())
		}
	})
}

func TestACaptureKeepsOnlyWhatItsFilterSays(t *testing.T) {
	t.Parallel()
	o, socket := withSockets(t)
	top := lab.Build(t, o)
	w := top.Directions()[0]
	c := startCapture(t, socket(w.Site), "--packets", "4", "icmp and dst host "+w.Seen.String()+" and greater 200")
	lab.Ping(t, w.From, w.Seen, 3)
	lab.Ping(t, w.From, w.Seen, 4, "-s", "400")
	found := c.packets(t)
	if n := between(found["inner-from-node"], w.Src, w.Seen, ""); n != 4 || len(found) != 1 {
		t.Errorf("%d packets of 4, on %d interfaces", n, len(found))
	}
	for _, b := range found["inner-from-node"] {
		if len(b) != 428 {
			t.Errorf("one of %d bytes", len(b))
		}
	}
}
