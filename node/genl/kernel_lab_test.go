//go:build lab

package genl

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/netns"
)

// inside opens a Conn in a namespace.
func inside(t *testing.T, n *netns.Namespace) (c *Conn) {
	t.Helper()
	if err := n.In(func() (err error) {
		c, err = Open()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// output returns what a program of the distribution prints inside a namespace: the
// independent reference of these tests.
func output(t *testing.T, n *netns.Namespace, program string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("left out: %s is not installed; run: apt-get install -y ethtool wireguard-tools", program)
	}
	return n.Run(t, program, args...)
}

func TestFeaturesOfADeviceAreSet(t *testing.T) {
	n := netns.New(t)
	n.IP(t, "link add one type veth peer name two")
	c := inside(t, n)
	for _, on := range []bool{false, true, false} {
		want := map[string]bool{"rx-gro": on, "tx-udp-segmentation": on, "tx-tcp-segmentation": on}
		if err := c.SetFeatures("one", want); err != nil {
			t.Fatal(err)
		}
		report := output(t, n, "ethtool", "-k", "one")
		state := "off"
		if on {
			state = "on"
		}
		for _, line := range []string{"generic-receive-offload: ", "tx-udp-segmentation: ", "tx-tcp-segmentation: "} {
			if !strings.Contains(report, line+state+"\n") {
				t.Errorf("after %v: ethtool does not print %s%s:\n%s", want, line, state, report)
			}
		}
		other, err := c.Features("two")
		if err != nil || !other["tx-udp-segmentation"] {
			t.Errorf("the other device changed too: %v, %v", other["tx-udp-segmentation"], err)
		}
	}
}

func TestAFeatureThatCannotBeSetIsAnError(t *testing.T) {
	n := netns.New(t)
	n.IP(t, "link add one type veth peer name two")
	c := inside(t, n)
	for feature, want := range map[string]string{
		"tls-hw-record": "the kernel did not change tls-hw-record", // no veth has it
		"no-such-one":   "set features of one: ",
	} {
		if err := c.SetFeatures("one", map[string]bool{feature: true}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s on a veth: got %v, want %q", feature, err, want)
		}
	}
}

func TestAWireGuardDeviceIsConfigured(t *testing.T) {
	n := netns.New(t)
	c := inside(t, n)
	if has, err := c.Has(WireGuardFamily); err != nil || !has {
		t.Skipf("left out: this kernel has no WireGuard (%v)", err)
	}
	n.IP(t, "link add wg0 type wireguard")
	keys := [3]*ecdh.PrivateKey{}
	for i := range keys {
		var err error
		if keys[i], err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	text := func(k *ecdh.PrivateKey) string { return base64.StdEncoding.EncodeToString(k.PublicKey().Bytes()) }
	w := WireGuard{
		PrivateKey: [32]byte(keys[0].Bytes()), ListenPort: 51821,
		AllowedIPs: []netip.Prefix{netip.MustParsePrefix("10.71.0.0/16"), netip.MustParsePrefix("fd00:71::/48")}, Keepalive: 25,
	}
	// The second peer replaces the first.
	for i, endpoint := range []string{"192.0.2.7:51820", "[2001:db8::7]:51822"} {
		w.PeerKey, w.Endpoint = [32]byte(keys[1+i].PublicKey().Bytes()), netip.MustParseAddrPort(endpoint)
		if err := c.SetWireGuard("wg0", w); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(output(t, n, "wg", "show", "wg0", "dump")), "\n")
		if len(lines) != 2 {
			t.Fatalf("wg shows %d peers, want one", len(lines)-1)
		}
		device, peer := strings.Fields(lines[0]), strings.Fields(lines[1])
		if device[1] != text(keys[0]) || device[2] != "51821" {
			t.Errorf("wg shows the device with public key %s and port %s", device[1], device[2])
		}
		want := []string{text(keys[1+i]), "(none)", endpoint, "10.71.0.0/16,fd00:71::/48", "0", "0", "0", "25"}
		if strings.Join(peer, " ") != strings.Join(want, " ") {
			t.Errorf("wg shows the peer %v, want %v", peer, want)
		}
	}
}

func TestAWireGuardDeviceThatDoesNotExistIsAnError(t *testing.T) {
	c := inside(t, netns.New(t))
	err := c.SetWireGuard("wg0", WireGuard{Endpoint: netip.MustParseAddrPort("192.0.2.7:51820")})
	if has, _ := c.Has(WireGuardFamily); !has && !errors.Is(err, unix.EOPNOTSUPP) || has && !errors.Is(err, unix.ENODEV) {
		t.Errorf("kernel WireGuard: %v; the error is %v", has, err)
	}
}
