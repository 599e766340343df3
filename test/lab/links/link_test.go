//go:build lab || nightly

package links

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"strait.dev/strait/test/lab"
)

func TestOneSideMayWaitForTheOther(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{Configure: func(s *lab.Site, c *lab.GatewayConfig) {
		if s.Name == "b" {
			c.PeerEndpoint = ""
		}
	}})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) { lab.Ping(t, w.From, w.Seen, 3) })
}

func TestGatewayMayListenOnAllAddresses(t *testing.T) {
	t.Parallel()
	for name, underlay6 := range map[string]bool{"IPv4 underlay": false, "IPv6 underlay": true} {
		t.Run(name, func(t *testing.T) {
			top := lab.Build(t, lab.Options{Underlay6: underlay6, Configure: func(_ *lab.Site, c *lab.GatewayConfig) {
				c.Listen, c.VXLANListen = ":6091", ":6092"
			}})
			lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) { lab.Ping(t, w.From, w.Seen, 3) })
		})
	}
}

func TestPresharedKeyIsUsed(t *testing.T) {
	t.Parallel()
	text := base64.StdEncoding.EncodeToString(lab.NewKeyPair(t).Private)
	file := filepath.Join(lab.WorkDir, strings.ToLower(t.Name())+".psk")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, lab.Unprivileged, lab.Unprivileged); err != nil {
		t.Fatal(err)
	}
	top := lab.Build(t, lab.Options{Configure: func(_ *lab.Site, c *lab.GatewayConfig) { c.PresharedKeyFile = file }})
	lab.Ping(t, top.A.Pod, top.A.Sees(top.B.Pod4), 3)

	// Without the key on one side no new handshake succeeds.
	b := top.B.Gateway
	b.Signal(t, syscall.SIGKILL)
	b.Wait(t)
	b.Config.PresharedKeyFile = ""
	b.WriteConfig(t)
	responses := lab.ListenOn(t, top.A.GW, "wan", func(frame []byte) bool { return lab.WireGuardType(frame) == 2 })
	b.Start(t)
	b.WaitReady(t)
	lab.Eventually(t, "A reports the link down", func() bool { return !top.A.Gateway.LinkUp(t) })
	// A repeats the handshake only because the first response was useless to it.
	lab.Eventually(t, "B has answered two handshakes of A", func() bool { return responses.Count() >= 2 })
	if b.LinkUp(t) || top.A.Gateway.LinkUp(t) {
		t.Error("the link came up although only one side has the preshared key")
	}
}

// A link that carries packets in one direction only is down, at both ends.
func TestLinkIsUpOnlyIfBothDirectionsWork(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	a, b := top.A.Gateway, top.B.Gateway
	bothUp := func() bool { return a.LinkUp(t) && b.LinkUp(t) }
	bothDown := func() bool { return !a.LinkUp(t) && !b.LinkUp(t) }
	lab.Eventually(t, "both ends report the link up", bothUp)
	top.A.GW.Run(t, "nft", "add table inet oneway; add chain inet oneway in { type filter hook input priority 0; }; add rule inet oneway in iifname wan drop")
	lab.Eventually(t, "both ends report the link down", bothDown)
	top.A.GW.Run(t, "nft", "delete table inet oneway")
	lab.Eventually(t, "both ends report the link up again", bothUp)
	lab.Ping(t, top.A.Pod, top.A.Sees(top.B.Pod4), 3)
}

// B restarts on another port. A learns that from B's packets, and later from its own
// configuration.
func TestF11_PeerMayMoveToAnotherPort(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	a, b := top.A.Gateway, top.B.Gateway
	b.Signal(t, syscall.SIGTERM)
	b.Wait(t)
	b.Config.WireGuardPort = 51999
	b.WriteConfig(t)
	b.Start(t)
	lab.WaitForPing(t, top.A.Pod, top.A.Sees(top.B.Pod4))
	a.Config.PeerEndpoint = strings.Replace(a.Config.PeerEndpoint, ":51840", ":51999", 1)
	a.Reload(t, "ok", func() { a.WriteConfig(t); a.Signal(t, syscall.SIGHUP) })
	lab.WaitForPing(t, top.A.Pod, top.A.Sees(top.B.Pod4))
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) { lab.Ping(t, w.From, w.Seen, 3) })
}
