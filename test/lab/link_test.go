//go:build lab || nightly

package lab

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOneSideMayWaitForTheOther(t *testing.T) {
	t.Parallel()
	top := build(t, options{configure: func(s *site, c *gatewayConfig) {
		if s.name == "b" {
			c.PeerEndpoint = ""
		}
	}})
	forEachDirection(t, top, func(t *testing.T, w direction) { ping(t, w.from, w.seen, 3) })
}

func TestGatewayMayListenOnAllAddresses(t *testing.T) {
	t.Parallel()
	for name, underlay6 := range map[string]bool{"IPv4 underlay": false, "IPv6 underlay": true} {
		t.Run(name, func(t *testing.T) {
			top := build(t, options{underlay6: underlay6, configure: func(_ *site, c *gatewayConfig) {
				c.Listen, c.VXLANListen = ":6091", ":6092"
			}})
			forEachDirection(t, top, func(t *testing.T, w direction) { ping(t, w.from, w.seen, 3) })
		})
	}
}

func TestPresharedKeyIsUsed(t *testing.T) {
	t.Parallel()
	text := base64.StdEncoding.EncodeToString(newKeyPair(t).private)
	file := filepath.Join(workDir, strings.ToLower(t.Name())+".psk")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, unprivileged, unprivileged); err != nil {
		t.Fatal(err)
	}
	top := build(t, options{configure: func(_ *site, c *gatewayConfig) { c.PresharedKeyFile = file }})
	ping(t, top.a.pod, top.a.sees(top.b.pod4), 3)

	// Without the key on one side no new handshake succeeds.
	b := top.b.gateway
	b.signal(t, syscall.SIGKILL)
	b.wait(t)
	b.config.PresharedKeyFile = ""
	b.writeConfig(t)
	responses := listenOn(t, top.a.gw, "wan", func(frame []byte) bool { return wireGuardType(frame) == 2 })
	b.start(t)
	b.waitReady(t)
	eventually(t, "A reports the link down", func() bool { return !top.a.gateway.linkUp(t) })
	// A repeats the handshake only because the first response was useless to it.
	eventually(t, "B has answered two handshakes of A", func() bool { return responses.count() >= 2 })
	if b.linkUp(t) || top.a.gateway.linkUp(t) {
		t.Error("the link came up although only one side has the preshared key")
	}
}

// A link that carries packets in one direction only is down, at both ends.
func TestLinkIsUpOnlyIfBothDirectionsWork(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	a, b := top.a.gateway, top.b.gateway
	bothUp := func() bool { return a.linkUp(t) && b.linkUp(t) }
	bothDown := func() bool { return !a.linkUp(t) && !b.linkUp(t) }
	eventually(t, "both ends report the link up", bothUp)
	top.a.gw.run(t, "nft", "add table inet oneway; add chain inet oneway in { type filter hook input priority 0; }; add rule inet oneway in iifname wan drop")
	eventually(t, "both ends report the link down", bothDown)
	top.a.gw.run(t, "nft", "delete table inet oneway")
	eventually(t, "both ends report the link up again", bothUp)
	ping(t, top.a.pod, top.a.sees(top.b.pod4), 3)
}

// B restarts on another port. A learns that from B's packets, and later from its own
// configuration.
func TestF11_PeerMayMoveToAnotherPort(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	a, b := top.a.gateway, top.b.gateway
	b.signal(t, syscall.SIGTERM)
	b.wait(t)
	b.config.WireGuardPort = 51999
	b.writeConfig(t)
	b.start(t)
	waitForPing(t, top.a.pod, top.a.sees(top.b.pod4))
	a.config.PeerEndpoint = strings.Replace(a.config.PeerEndpoint, ":51840", ":51999", 1)
	a.reload(t, "ok", func() { a.writeConfig(t); a.signal(t, syscall.SIGHUP) })
	waitForPing(t, top.a.pod, top.a.sees(top.b.pod4))
	forEachDirection(t, top, func(t *testing.T, w direction) { ping(t, w.from, w.seen, 3) })
}
