package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/test/wait"
)

func TestTheLastConfigurationIsCachedAtTheEnd(t *testing.T) {
	of := identity{"b", "b-0"}
	s := newSaver(t.TempDir(), of, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.run(ctx); close(done) }()
	cached := func() string {
		c, _, err := readCache(s.dir, of)
		if err != nil {
			return err.Error()
		}
		return c.Cluster
	}
	for i := range 100 { // faster than anything is written
		s.save(&config.Gateway{APIVersion: config.APIVersion, Kind: config.Kind, Cluster: fmt.Sprint("c", i)})
		if i == 0 {
			wait.Until(t, "the first is cached", func() bool { return cached() == "c0" })
		}
	}
	stop()
	<-done
	if cached() != "c99" {
		t.Errorf("cached is %s", cached())
	}
}

// A slow disk once delayed the first configuration with a peer by 12 s. A gateway that was
// killed meanwhile restarted without the peer.
func TestLinksAreCachedAtOnceAndNodesAfterTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := identity{"b", "b-0"}
		s := newSaver(t.TempDir(), of, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.run(ctx)
		save := func(nodes, links string) { // one field of each
			s.save(&config.Gateway{APIVersion: config.APIVersion, Kind: config.Kind, Cluster: "a",
				Overlay: config.Overlay{Addresses: []netip.Addr{netip.MustParseAddr(nodes)}}, WireGuard: config.WireGuard{PrivateKeyFile: links}})
			synctest.Wait()
		}
		cached := func(nodes, links string) {
			t.Helper()
			c, _, err := readCache(s.dir, of)
			if err != nil {
				t.Fatal(err)
			}
			if n, l := c.Overlay.Addresses[0].String(), c.WireGuard.PrivateKeyFile; n != nodes || l != links {
				t.Fatalf("cached are nodes %s and links %s, want %s and %s", n, l, nodes, links)
			}
		}
		save("10.80.0.1", "old.key")
		cached("10.80.0.1", "old.key")
		save("10.80.0.1", "new.key")
		cached("10.80.0.1", "new.key")
		save("10.80.0.2", "new.key")
		cached("10.80.0.1", "new.key")
		time.Sleep(saveInterval)
		synctest.Wait()
		cached("10.80.0.2", "new.key")
	})
}

func TestACacheThatCannotBeWrittenIsTold(t *testing.T) {
	log := new(bytes.Buffer)
	s := &saver{dir: filepath.Join(t.TempDir(), "absent"), log: slog.New(slog.NewTextHandler(log, nil))}
	s.write(&config.Gateway{})
	if !strings.Contains(log.String(), "a restart will need the API server") {
		t.Errorf("logged %q", log)
	}
}
