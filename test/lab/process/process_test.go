//go:build lab || nightly

package process

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

	"strait.dev/strait/test/lab"
)

func TestT5_GatewayHasNoPrivilege(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	for _, s := range []*lab.Site{top.A, top.B} {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Gateway.Cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for field, want := range map[string]string{
			"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
			"CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1",
			"Uid": "65534 65534 65534 65534", "Gid": "65534 65534 65534 65534", "Groups": "",
		} {
			if got, ok := lab.StatusField(string(status), field); !ok || got != want {
				t.Errorf("gateway %s: %s is %q, want %q", s.Name, field, got, want)
			}
		}
		if name, _ := lab.StatusField(string(status), "Name"); name != "strait" {
			t.Errorf("the process is %q, not the gateway", name)
		}
	}
}

func TestTerminationDrains(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	g := top.B.Gateway
	p := lab.StartPings(t, top.A.Pod, top.A.Sees(top.B.Pod4))
	for range lab.MostRounds { // it drains for 2 s, in which it may not be asked in time on a machine that is busy
		unready := 0 // pings answered when it is not ready any more
		g.Signal(t, syscall.SIGTERM)
		lab.Eventually(t, "the gateway is not ready, or has ended", func() bool {
			if _, status, err := g.Get("/readyz"); err == nil && status == http.StatusServiceUnavailable {
				unready = p.Read(t).Replies
			}
			return unready > 0 || g.Ended()
		})
		if status := g.Wait(t); status != 0 {
			t.Errorf("the gateway ended with status %d on SIGTERM, want 0", status)
		}
		if unready > 0 && p.Read(t).Replies-unready >= 3 { // packets cross while it drains
			return
		}
		t.Log("too little was seen of how the gateway drained; again")
		g.Start(t)
		g.WaitReady(t)
		lab.WaitForPing(t, top.A.Pod, top.A.Sees(top.B.Pod4))
	}
	t.Errorf("in %d rounds no gateway was seen to forward while it was not ready", lab.MostRounds)
}

func TestTrafficReturnsAfterTheGatewayWasKilled(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	a, b := top.A.Gateway, top.B.Gateway
	lab.Eventually(t, "A reports the link up", func() bool { return a.LinkUp(t) })
	b.Signal(t, syscall.SIGKILL)
	b.Wait(t)
	lab.Eventually(t, "A reports the link down", func() bool { return !a.LinkUp(t) })
	started := time.Now()
	b.Start(t)
	lab.WaitForPing(t, top.A.Pod, top.A.Sees(top.B.Pod4))
	lab.WaitForPing(t, top.B.Pod, top.B.Sees(top.A.Pod6))
	t.Logf("traffic crosses again %.1f s after the restart", time.Since(started).Seconds())
	lab.Eventually(t, "A reports the link up again", func() bool { return a.LinkUp(t) })
}

func TestMetricsCountTraffic(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	a := top.A.Gateway
	for _, path := range []string{"/healthz", "/readyz"} {
		if _, status, err := a.Get(path); err != nil || status != http.StatusOK {
			t.Errorf("%s: status %d, %v; want 200", path, status, err)
		}
	}
	peer := `peer="b-0"`
	lab.Eventually(t, "the link is up and has answered a probe", func() bool {
		return a.Metric(t, "strait_link_up", peer) == 1 && a.Metric(t, "strait_link_rtt_seconds_count", peer) > 0
	})
	if age := a.Metric(t, "strait_wireguard_handshake_age_seconds", peer); age < 0 || age > 180 {
		t.Errorf("the last handshake is %v s old, want 0 to 180", age)
	}
	const pings, size = 20, 500
	read := func(name, direction string) float64 { return a.Metric(t, name, `direction="`+direction+`"`) }
	before := map[string]float64{}
	for _, direction := range []string{"egress", "ingress"} {
		before[direction] = read("strait_packets_total", direction)
		before[direction+" bytes"] = read("strait_bytes_total", direction)
	}
	lab.Ping(t, top.A.Pod, top.A.Sees(top.B.Pod4), pings, "-s", fmt.Sprint(size))
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
	top := lab.Build(t, lab.Options{})
	g := top.A.Gateway
	encoded, err := os.ReadFile(filepath.Join(g.Dir, "private.key"))
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSpace(string(encoded))
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	g.Reload(t, "ok", func() { g.Config.MTU = lab.SmallMTU; g.WriteConfig(t) })
	g.Signal(t, syscall.SIGTERM)
	g.Wait(t)
	log, err := os.ReadFile(g.LogFile())
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
