package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/plan"
	"strait.dev/strait/relay"
)

// pair is two running gateways, connected by WireGuard over loopback:
//
//	node a ══Geneve══ gateway a ══WireGuard══ gateway b ══Geneve══ node b
type pair struct{ a, b *side }

const (
	linkLimit    = 10 * time.Second
	linkInterval = 2 * time.Millisecond
)

// startPair starts both and waits until the link is up. If dial is not nil, cluster b has no
// node: gateway b connects to its pods by dial.
func startPair(ctx context.Context, offload bool, dial relay.Dialer) (p *pair, err error) {
	p = new(pair)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	keys, err := newKeys("a", "b")
	if err != nil {
		return p, err
	}
	defer func() { _ = keys.remove() }() // gateways read their key once, when they start
	// Cluster b has no endpoint for a: one reachable side is enough.
	p.b, err = startSide(plan.B, config.WireGuard{
		PrivateKeyFile: keys.file("b"), Peers: []config.Peer{{Name: "a-0", PublicKey: keys.public["a"]}},
	}, true, offload, dial)
	if err != nil {
		return p, err
	}
	endpoint := netip.AddrPortFrom(plan.B.GatewayUnderlay, p.b.listens).String()
	p.a, err = startSide(plan.A, config.WireGuard{
		PrivateKeyFile: keys.file("a"), Peers: []config.Peer{{Name: "b-0", PublicKey: keys.public["b"], Endpoint: endpoint}},
	}, false, offload, nil)
	if err != nil {
		return p, err
	}
	return p, p.link(ctx)
}

// link waits until link probes of both gateways have been answered.
func (p *pair) link(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, linkLimit,
		tooBusy{fmt.Errorf("the link between the gateways was not up after %v; check that \"strait demo\" works", linkLimit)})
	defer cancel()
	for !p.a.linked() || !p.b.linked() {
		if !pause(ctx, linkInterval) {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (p *pair) close() (err error) {
	for _, s := range []*side{p.a, p.b} {
		if s != nil {
			err = errors.Join(err, s.close())
		}
	}
	return err
}

// keys are WireGuard key pairs for one test, in files with mode 0600.
type keys struct {
	folder string
	public map[string]config.Key
}

func newKeys(names ...string) (k *keys, err error) {
	k = &keys{public: make(map[string]config.Key)}
	if k.folder, err = os.MkdirTemp("", "strait-bench-"); err != nil { // mode 0700
		return nil, fmt.Errorf("create a directory for keys: %w; set TMPDIR to a writable directory", err)
	}
	for _, name := range names {
		if k.public[name], err = plan.NewKey(k.file(name)); err != nil {
			return nil, errors.Join(err, k.remove())
		}
	}
	return k, nil
}

func (k *keys) file(name string) string { return filepath.Join(k.folder, name) }

func (k *keys) remove() error { return os.RemoveAll(k.folder) }
