package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/test/wait"
)

func TestTheLastConfigurationIsCachedAtTheEnd(t *testing.T) {
	of := identity{"b", "b-0"}
	s := &saver{dir: t.TempDir(), of: of, log: slog.New(slog.DiscardHandler), next: make(chan *config.Gateway, 1)}
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

func TestACacheThatCannotBeWrittenIsTold(t *testing.T) {
	log := new(bytes.Buffer)
	s := &saver{dir: filepath.Join(t.TempDir(), "absent"), log: slog.New(slog.NewTextHandler(log, nil))}
	s.write(&config.Gateway{})
	if !strings.Contains(log.String(), "a restart will need the API server") {
		t.Errorf("logged %q", log)
	}
}
