//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/curve25519"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/geneve"
	"strait.dev/strait/internal/capture"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/wait"
)

// capturedGateway runs a gateway with a socket, and has a node send it the same frame
// again and again until the test ends.
func capturedGateway(t *testing.T) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "strait") // short, for the socket's sake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	node, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	port := node.LocalAddr().(*net.UDPAddr).Port
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{8}, 32))
	far, err := curve25519.X25519(bytes.Repeat([]byte{16}, 32), curve25519.Basepoint)
	if err != nil {
		t.Fatal(err)
	}
	wireGuard := ports.Free(t, 1)[0]
	config := filepath.Join(dir, "gateway.yaml")
	for name, text := range map[string]string{
		filepath.Join(dir, "private.key"): key,
		config: fmt.Sprintf(`apiVersion: strait.dev/v1alpha1
kind: GatewayConfig
cluster: a
overlay:
  listen: "127.0.0.1:%d"
  addresses: [10.80.0.1]
  mtu: 1400
  nodes:
  - {name: node-1, underlay: 127.0.0.2, vni: 101, addresses: [10.80.0.11], prefixes: [10.0.1.0/24]}
wireguard:
  listenPort: %d
  privateKeyFile: %s/private.key
  peers:
  - {name: b-0, publicKey: %q}
local: {prefixes: [10.0.0.0/16]}
remote: {cluster: b, prefixes: [{cidr: 10.0.0.0/16, seenAs: 10.71.0.0/16}]}
`, port, wireGuard, dir, base64.StdEncoding.EncodeToString(far)),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	socket = filepath.Join(dir, "strait.sock")
	stop, ended := make(chan os.Signal, 2), make(chan error, 1)
	go func() {
		ended <- daemon.Run(config, daemon.Signals{Stop: stop}, daemon.Options{Log: slog.New(slog.DiscardHandler), Socket: socket})
	}()
	sent := make(chan bool)
	go func() {
		defer close(sent)
		frame := arpFrame()
		wait.Until(t, "the node has ended", func() bool {
			_, err := node.WriteToUDP(frame, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
			return errors.Is(err, net.ErrClosed)
		})
	}()
	t.Cleanup(func() {
		node.Close()
		<-sent
		stop <- syscall.SIGTERM
		stop <- syscall.SIGTERM // no draining
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	wait.Until(t, "the gateway has its configuration", func() bool {
		answer, err := localsocket.Capture(t.Context(), socket, localsocket.CaptureRequest{Stages: []string{"inner"}}, strings.NewReader(""))
		if err == nil {
			answer.Close()
		}
		return err == nil
	})
	return socket
}

// arpFrame is a question for the gateway's own address, behind a Geneve header.
func arpFrame() []byte {
	b := make([]byte, geneve.HeaderLen+packet.EthernetHeaderLen, 64)
	geneve.Put(b, 101)
	packet.PutEthernet(b[geneve.HeaderLen:], packet.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, packet.MAC{2, 0, 0, 0, 0, 11}, packet.EtherTypeARP)
	b = append(b, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 11, 10, 80, 0, 11)
	return append(b, 0, 0, 0, 0, 0, 0, 10, 80, 0, 1)
}

// captured runs the command and reads the file.
func captured(t *testing.T, args ...string) (code int, interfaces []string, said string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.pcapng")
	root := newRoot()
	var errs bytes.Buffer
	root.SetErr(&errs)
	code = execute(root, append([]string{"capture", "--file", file}, args...))
	b, err := os.ReadFile(file)
	if err != nil {
		return code, nil, errs.String()
	}
	return code, seenIn(t, b), errs.String()
}

// seenIn are the interfaces of a file's packets, in their order.
func seenIn(t *testing.T, file []byte) (interfaces []string) {
	t.Helper()
	for r := capture.NewReader(bytes.NewReader(file)); ; {
		_, p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return interfaces
		}
		if err != nil {
			t.Fatal(err)
		}
		if p != nil {
			interfaces = append(interfaces, p.Interface)
		}
	}
}

func TestCaptureWritesWhatTheGatewaySees(t *testing.T) {
	socket := capturedGateway(t)
	code, seen, said := captured(t, "--socket", socket, "--stage", "overlay", "--packets", "4")
	if code != exitOK || len(seen) != 4 || !slices.Contains(seen, "overlay-from-node") || !slices.Contains(seen, "overlay-to-node") {
		t.Errorf("ends with %d, saw %v\n%s", code, seen, said)
	}
	if !strings.HasPrefix(said, "4 packets, ") || !strings.HasSuffix(said, " bytes, none lost\n") {
		t.Errorf("says %q", said)
	}
	code, seen, said = captured(t, "--socket", socket, "--stage", "overlay", "--packets", "4", "src", "host", "127.0.0.2")
	if code != exitOK || len(seen) != 4 || slices.Contains(seen, "overlay-to-node") {
		t.Errorf("ends with %d, saw %v\n%s", code, seen, said)
	}
	if code, seen, said := captured(t, "--socket", socket, "--duration", "50ms"); code != exitOK || len(seen) != 0 || said != "0 packets, 0 bytes, none lost\n" {
		t.Errorf("ARP is no IP, and gave %d, %v, %q", code, seen, said)
	}
}

func TestCaptureExitCodes(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	nowhere := filepath.Join(t.TempDir(), "strait.sock")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--socket", nowhere, "prot", "80"}, exitUsage, `filter: at character 1: "prot"; expected a test`},
		{[]string{"--socket", nowhere, "--stage", "outer"}, exitUsage, "choose inner, tunnel, overlay or wireguard"},
		{[]string{"--socket", nowhere, "--file", ""}, exitUsage, "name a file, or - to pipe the packets"},
		{[]string{"--socket", nowhere, "--packets", "-1"}, exitUsage, "leave one out for no limit"},
		{[]string{"--socket", nowhere, "--context", "a"}, exitUsage, "leave out the flags that select a cluster"},
		{[]string{"--socket", nowhere}, exitFailed, "no gateway listens on " + nowhere + "; start one with --socket"},
		{[]string{"b"}, exitFailed, "kubeconfig"},
	} {
		code, seen, said := captured(t, c.args...)
		if code != c.code || seen != nil || !strings.Contains(said, c.says) {
			t.Errorf("%v: ends with %d and %q, saw %v", c.args, code, said, seen)
		}
	}
}

// An older file is not lost to a capture that does not begin.
func TestACaptureThatFailsLeavesTheFileAsItWas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.pcapng")
	if err := os.WriteFile(file, []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	root.SetErr(io.Discard)
	if code := execute(root, []string{"capture", "--file", file, "--socket", file + ".sock"}); code != exitFailed {
		t.Errorf("ends with %d", code)
	}
	if b, _ := os.ReadFile(file); string(b) != "older" {
		t.Errorf("the file has become %q", b)
	}
}

// inPod runs the command that a pod is told to run, on the socket of a gateway here.
func inPod(socket string) func(context.Context, client.ExecOptions) error {
	return func(ctx context.Context, o client.ExecOptions) error {
		root := newRoot()
		root.SetContext(ctx)
		root.SetIn(o.Stdin)
		root.SetOut(o.Stdout)
		root.SetErr(o.Stderr)
		args := slices.Clone(o.Command[1:])
		args[slices.Index(args, install.Socket)] = socket
		if code := execute(root, args); code != exitOK {
			return &client.ExitError{Code: code}
		}
		return nil
	}
}

// limitedBuffer calls full when it has more than some packets.
type limitedBuffer struct {
	bytes.Buffer
	full func()
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len() > 4096 {
		b.full()
	}
	return b.Buffer.Write(p)
}

func TestCaptureInAPodGivesTheSameFile(t *testing.T) {
	socket := capturedGateway(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: install.GatewayNamespace, Name: "b-0"}}
	for name, packets := range map[string]int{"told to end": 0, "three packets": 3} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := &limitedBuffer{full: func() {}}
			if packets == 0 {
				out.full = cancel
			}
			f := captureFlags{file: "-", request: localsocket.CaptureRequest{
				Stages: []string{"overlay", "inner"}, Filter: "udp or icmp", Packets: packets,
			}}
			cmd := newCapture()
			var errs bytes.Buffer
			cmd.SetOut(out)
			cmd.SetErr(&errs)
			if err := f.farIn(ctx, cmd, pod, inPod(socket)); err != nil {
				t.Fatal(err)
			}
			seen := seenIn(t, out.Bytes())
			if len(seen) == 0 || packets > 0 && len(seen) != packets || !strings.HasPrefix(errs.String(), fmt.Sprintf("%d packets, ", len(seen))) {
				t.Errorf("saw %v, says %q", seen, errs.String())
			}
		})
	}
}

func TestErrorsInAPodNameThePod(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: install.GatewayNamespace, Name: "b-0"}}
	f := captureFlags{file: "-", request: localsocket.CaptureRequest{Stages: []string{"inner"}}}
	cmd := newCapture()
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	err := f.farIn(t.Context(), cmd, pod, inPod(filepath.Join(t.TempDir(), "strait.sock")))
	if err == nil || !strings.HasPrefix(err.Error(), "pod strait-gateways/b-0: no gateway listens on ") {
		t.Errorf("no gateway there: %v", err)
	}
	err = f.farIn(t.Context(), cmd, pod, func(context.Context, client.ExecOptions) error { return errors.New("no route to host") })
	if err == nil || err.Error() != "pod strait-gateways/b-0: no route to host" {
		t.Errorf("no route: %v", err)
	}
	err = f.farIn(t.Context(), cmd, pod, func(_ context.Context, o client.ExecOptions) error {
		_, err := io.WriteString(o.Stdout, "Usage: something else\n")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "not a capture: a block of") {
		t.Errorf("another program there: %v", err)
	}
}

func TestCaptureFindsTheGateway(t *testing.T) {
	pod := func(name, of string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{peering.Label: of}},
			Status:     corev1.PodStatus{Phase: phase},
		}
	}
	pods := []corev1.Pod{
		pod("b-0", "b", corev1.PodRunning), pod("c-1", "c", corev1.PodRunning), pod("c-0", "c", corev1.PodRunning),
		pod("d-0", "d", corev1.PodPending), pod("d-1", "d", corev1.PodRunning), pod("e-0", "e", corev1.PodPending),
	}
	for _, c := range []struct {
		pods        []corev1.Pod
		name        string
		found, says string
	}{
		{pods, "b", "b-0", ""},
		{pods, "c-1", "c-1", ""},
		{pods, "d", "d-1", ""},
		{pods[:1], "", "b-0", ""},
		{pods, "c", "", "2 gateways of Peering c run: name one of c-0, c-1"},
		{pods, "d-0", "", "no gateway d-0 runs: d-0 is Pending; run kubectl describe pod --namespace ns d-0"},
		{pods, "e", "", "no gateway of Peering e runs: e-0 is Pending"},
		{pods, "f", "", "there is no gateway f and no Peering f with gateways in namespace ns"},
		{pods, "", "", "4 gateways in namespace ns run: name one"},
		{nil, "", "", "no gateway runs in namespace ns: run strait status"},
	} {
		found, err := chooseGateway(c.pods, c.name, "ns")
		switch {
		case c.found != "" && (err != nil || found.Name != c.found):
			t.Errorf("%q: %v, %v", c.name, found, err)
		case c.found == "" && (err == nil || !strings.HasPrefix(err.Error(), c.says)):
			t.Errorf("%q: %v, want %q", c.name, err, c.says)
		}
	}
}
