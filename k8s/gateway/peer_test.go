package gateway

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/ports"
)

// peer runs the remote cluster's gateway, from a file, and names it in the Peering.
func (w *fixture) peer(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	key, own := filepath.Join(dir, "private.key"), filepath.Join(dir, "own.key")
	must(t, os.WriteFile(key, privateKey(9), 0o600))
	must(t, os.WriteFile(own, privateKey(8), 0o600))
	theirs, err := daemon.PublicKey(key)
	must(t, err)
	ours, err := daemon.PublicKey(own)
	must(t, err)
	free := ports.Free(t, 2)
	c, err := config.Parse(fmt.Appendf(nil, `apiVersion: strait.dev/v1alpha1
kind: GatewayConfig
cluster: b
overlay: {listen: "127.0.0.1:%d", addresses: [10.80.0.1], mtu: 1400}
wireguard:
  listenPort: %d
  privateKeyFile: %s
  peers: [{name: a-0, publicKey: %q, endpoint: "127.0.0.1:%d"}]
local: {prefixes: [10.0.0.0/16]}
remote: {cluster: a, prefixes: [{cidr: 10.0.0.0/16, seenAs: 10.72.0.0/16}]}
`, free[0], free[1], key, ours, w.options.WireGuardPort))
	must(t, err)
	must(t, c.Validate())
	d, err := daemon.Start(c, daemon.Options{Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	w.setPeers(t, v1alpha1.Peer{
		Name: "b-0", PublicKey: v1alpha1.PublicKey(theirs.String()), Endpoint: v1alpha1.Endpoint(fmt.Sprintf("127.0.0.1:%d", free[1])),
	})
}

func (w *fixture) setPeers(t *testing.T, peers ...v1alpha1.Peer) {
	t.Helper()
	kube.Edit(t, w.admin.Peerings(), "b", func(p *v1alpha1.Peering) { p.Spec.Peers = peers })
}

func TestTheStatusSaysWhatTheGatewayIsAndHowItsLinksAreDoing(t *testing.T) {
	t.Parallel()
	w := inMemory(t)
	w.network(t)
	w.peering(t)
	w.place(t)
	another := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: v1alpha1.PeeringStatus{
		Gateways: []v1alpha1.GatewayStatus{{Name: "b-1", MTU: 1300}},
		Links:    []v1alpha1.LinkStatus{{Local: "b-1", Remote: "b-0", Up: true}},
	}}
	_, err := w.admin.Peerings().ApplyStatus(t.Context(), another, "strait-gateway-b-1")
	must(t, err)
	w.peer(t)
	w.run(t)

	w.eventually(t, "the link is told to be up, with all that is measured", func() bool {
		links := w.gatewayPart(t).Links
		return len(links) == 1 && links[0].Up && links[0].RTT != nil && links[0].LastHandshake != nil && links[0].Endpoint != ""
	})
	p, err := w.admin.Peerings().Get(t.Context(), "b", metav1.GetOptions{})
	must(t, err)
	key, err := daemon.PublicKey(filepath.Join(w.options.KeyDir, "1.key"))
	must(t, err)
	for _, g := range p.Status.Gateways {
		if g.Name != "b-0" {
			continue
		}
		if g.PublicKey != v1alpha1.PublicKey(key.String()) || len(g.PodAddresses) != 1 || g.PodAddresses[0] != "192.0.2.10" || g.Node != "node-1" || g.MTU != 1400 {
			t.Errorf("it says of itself %+v", g)
		}
		if g.Number != 1 || len(g.InternalAddresses) != 1 {
			t.Errorf("what the controller said is not there any more: %+v", g)
		}
	}
	if other := gatewayPart(&p.Status, "b-1"); len(other.Gateways) != 1 || len(other.Links) != 1 || len(p.Status.Gateways) != 2 {
		t.Errorf("what another gateway said is not there any more: %+v", p.Status)
	}

	w.halt(t)
	if links := w.gatewayPart(t).Links; len(links) != 1 || links[0].Up {
		t.Errorf("when the gateway has ended it says of its links %+v", links)
	}
	w.run(t)
	w.eventually(t, "the link is up again", func() bool { return len(w.gatewayPart(t).Links) == 1 && w.gatewayPart(t).Links[0].Up })

	w.setPeers(t)
	w.eventually(t, "the link is gone with its peer", func() bool { return len(w.gatewayPart(t).Links) == 0 && len(w.gatewayPart(t).Gateways) == 1 })
}

func TestAPeerWaitsForItsPresharedKey(t *testing.T) {
	t.Parallel()
	w := inMemory(t)
	w.network(t)
	w.peering(t)
	w.place(t)
	w.setPeers(t, v1alpha1.Peer{Name: "b-0", PublicKey: "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=", PresharedKeySecretName: "b-psk"})
	w.run(t)
	w.eventually(t, "it is told", w.has("strait_config_problems 1"))
	if w.has(`strait_link_up{peer="b-0"} 0`)() {
		t.Error("a link without its preshared key")
	}
	must(t, os.WriteFile(filepath.Join(w.options.PresharedKeyDir, "b-psk"), privateKey(7), 0o600))
	w.eventually(t, "the link", w.has(`strait_link_up{peer="b-0"} 0`))
	w.eventually(t, "no problem left", w.has("strait_config_problems 0"))
}
