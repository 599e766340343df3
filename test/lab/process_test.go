//go:build lab || nightly

package lab

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestT5_GatewayHasNoPrivilege(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	for _, s := range []*site{top.a, top.b} {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.gateway.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for field, want := range map[string]string{
			"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
			"CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1",
			"Uid": "65534 65534 65534 65534", "Gid": "65534 65534 65534 65534", "Groups": "",
		} {
			if got, ok := statusField(string(status), field); !ok || got != want {
				t.Errorf("gateway %s: %s is %q, want %q", s.name, field, got, want)
			}
		}
		if name, _ := statusField(string(status), "Name"); name != "strait" {
			t.Errorf("the process is %q, not the gateway", name)
		}
	}
}

func TestTerminationDrains(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	g := top.b.gateway
	p := startPings(t, top.a.pod, top.a.sees(top.b.pod4))
	for range mostRounds { // it drains for 2 s, in which it may not be asked in time on a machine that is busy
		unready := 0 // pings answered when it is not ready any more
		g.signal(t, syscall.SIGTERM)
		eventually(t, "the gateway is not ready, or has ended", func() bool {
			if _, status, err := g.get("/readyz"); err == nil && status == http.StatusServiceUnavailable {
				unready = p.read(t).replies
			}
			return unready > 0 || g.ended()
		})
		if status := g.wait(t); status != 0 {
			t.Errorf("the gateway ended with status %d on SIGTERM, want 0", status)
		}
		if unready > 0 && p.read(t).replies-unready >= 3 { // packets cross while it drains
			return
		}
		t.Log("too little was seen of how the gateway drained; again")
		g.start(t)
		g.waitReady(t)
		waitForPing(t, top.a.pod, top.a.sees(top.b.pod4))
	}
	t.Errorf("in %d rounds no gateway was seen to forward while it was not ready", mostRounds)
}

func TestTrafficReturnsAfterTheGatewayWasKilled(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	a, b := top.a.gateway, top.b.gateway
	eventually(t, "A reports the link up", func() bool { return a.linkUp(t) })
	b.signal(t, syscall.SIGKILL)
	b.wait(t)
	eventually(t, "A reports the link down", func() bool { return !a.linkUp(t) })
	started := time.Now()
	b.start(t)
	waitForPing(t, top.a.pod, top.a.sees(top.b.pod4))
	waitForPing(t, top.b.pod, top.b.sees(top.a.pod6))
	t.Logf("traffic crosses again %.1f s after the restart", time.Since(started).Seconds())
	eventually(t, "A reports the link up again", func() bool { return a.linkUp(t) })
}

func TestMetricsCountTraffic(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	a := top.a.gateway
	for _, path := range []string{"/healthz", "/readyz"} {
		if _, status, err := a.get(path); err != nil || status != http.StatusOK {
			t.Errorf("%s: status %d, %v; want 200", path, status, err)
		}
	}
	peer := `peer="b-0"`
	eventually(t, "the link is up and has answered a probe", func() bool {
		return a.metric(t, "strait_link_up", peer) == 1 && a.metric(t, "strait_link_rtt_seconds_count", peer) > 0
	})
	if age := a.metric(t, "strait_wireguard_handshake_age_seconds", peer); age < 0 || age > 180 {
		t.Errorf("the last handshake is %v s old, want 0 to 180", age)
	}
	const pings, size = 20, 500
	read := func(name, direction string) float64 { return a.metric(t, name, `direction="`+direction+`"`) }
	before := map[string]float64{}
	for _, direction := range []string{"egress", "ingress"} {
		before[direction] = read("strait_packets_total", direction)
		before[direction+" bytes"] = read("strait_bytes_total", direction)
	}
	ping(t, top.a.pod, top.a.sees(top.b.pod4), pings, "-s", fmt.Sprint(size))
	for _, direction := range []string{"egress", "ingress"} {
		if got := read("strait_packets_total", direction) - before[direction]; got < pings {
			t.Errorf("%d pings counted as %v packets of %s", pings, got, direction)
		}
		if got := read("strait_bytes_total", direction) - before[direction+" bytes"]; got < pings*(size+28) {
			t.Errorf("%d pings of %d bytes counted as %v bytes of %s", pings, size+28, got, direction)
		}
	}
}

func TestT4_KeysAreNeverLogged(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	g := top.a.gateway
	encoded, err := os.ReadFile(filepath.Join(g.dir, "private.key"))
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSpace(string(encoded))
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	g.reload(t, "ok", func() { g.config.MTU = smallMTU; g.writeConfig(t) })
	g.signal(t, syscall.SIGTERM)
	g.wait(t)
	log, err := os.ReadFile(g.logFile())
	if err != nil {
		t.Fatal(err)
	}
	if len(log) == 0 {
		t.Error("the gateway logged nothing")
	}
	for _, secret := range []string{key, hex.EncodeToString(raw)} {
		if strings.Contains(string(log), secret) {
			t.Error("the private key is in the gateway's log")
		}
	}
}
