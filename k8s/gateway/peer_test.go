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

func TestTheReportSaysWhatTheGatewayIsAndHowItsLinksAreDoing(t *testing.T) {
	t.Parallel()
	w := inMemory(t)
	w.network(t)
	w.peering(t)
	w.place(t)
	w.peer(t)
	before, err := w.admin.Peerings().Get(t.Context(), "b", metav1.GetOptions{})
	must(t, err)
	w.run(t)

	w.eventually(t, "the link is told to be up, with all that is measured", func() bool {
		links := w.links(t)
		return len(links) == 1 && links[0].Up && links[0].RTT != nil && links[0].LastHandshake != nil && links[0].Endpoint != ""
	})
	r, err := w.admin.GatewayReports("strait").Get(t.Context(), "b-0", metav1.GetOptions{})
	must(t, err)
	key, err := daemon.PublicKey(filepath.Join(w.options.KeyDir, "1.key"))
	must(t, err)
	if s := r.Status; s.Peering != "b" || s.PublicKey != v1alpha1.PublicKey(key.String()) || s.KeyGeneration != 1 || s.MTU != 1400 || s.Summary.LinksUp != "1/1" {
		t.Errorf("it says of itself %+v", s)
	}
	if owners := r.OwnerReferences; len(owners) != 1 || owners[0].Kind != "Pod" || owners[0].Name != "b-0" || owners[0].UID != "pod-b-0" {
		t.Errorf("its report belongs to %+v", owners)
	}

	w.halt(t)
	if links := w.links(t); len(links) != 1 || links[0].Up {
		t.Errorf("when the gateway has ended it says of its links %+v", links)
	}
	w.run(t)
	up := func() bool {
		links := w.links(t)
		return len(links) == 1 && links[0].Up
	}
	w.eventually(t, "the link is up again", up)
	must(t, w.admin.GatewayReports("strait").Delete(t.Context(), "b-0", metav1.DeleteOptions{}))
	w.eventually(t, "the report is there again", up)
	if p, err := w.admin.Peerings().Get(t.Context(), "b", metav1.GetOptions{}); err != nil || p.ResourceVersion != before.ResourceVersion {
		t.Errorf("it wrote to its Peering: %+v, %v", p, err)
	}

	w.setPeers(t)
	w.eventually(t, "the link is gone with its peer", func() bool { r := w.report(t); return r != nil && len(r.Links) == 0 })
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
