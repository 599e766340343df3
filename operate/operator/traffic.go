package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
)

// Traffic is what a link carried since its gateway started.
type Traffic struct {
	Received uint64 `json:"receivedBytes"` // of IP packets
	Sent     uint64 `json:"sentBytes"`
}

// Limits of a query of the gateways.
const (
	trafficTimeout = 15 * time.Second
	trafficAtOnce  = 8
	metricsAtMost  = 4 << 20 // bytes
)

// ReadTraffic adds to the links what each carried. The gateways have the counters, not their
// reports: a report that changed with every packet would wake all that watch it. A gateway
// that cannot be queried is an error, and its links have no Traffic.
func (r *Report) ReadTraffic(ctx context.Context, c Cluster) error {
	return r.readTraffic(ctx, c, c.Client.Exec)
}

func (r *Report) readTraffic(ctx context.Context, c Cluster, exec func(context.Context, client.ExecOptions) error) error {
	links := make(map[string][]*Link) // by gateway
	for i := range r.Peerings {
		for j := range r.Peerings[i].Links {
			l := &r.Peerings[i].Links[j]
			links[l.Local] = append(links[l.Local], l)
		}
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	turn := make(chan struct{}, trafficAtOnce)
	for gateway, its := range links {
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			text, err := metricsOf(ctx, gateway, exec)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, fmt.Errorf("%s: %w", c.Name, err))
				return
			}
			for _, l := range its {
				l.Traffic = trafficOf(text, l.Remote)
			}
		})
	}
	all.Wait()
	return failed
}

// metricsOf returns the metrics of a gateway.
func metricsOf(ctx context.Context, gateway string, exec func(context.Context, client.ExecOptions) error) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, trafficTimeout)
	defer cancel()
	var out, errs limited
	err := exec(ctx, client.ExecOptions{
		Namespace: install.GatewayNamespace, Pod: gateway, Container: install.Gateway, Stdout: &out, Stderr: &errs,
		Command: []string{install.Binary, "agent", "fetch", fmt.Sprintf("http://127.0.0.1:%d/metrics", install.HTTPPort)},
	})
	switch {
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("gateway %s: exec is not permitted: %w; use a context with permission to create pods/exec", gateway, err)
	case err != nil && errs.Len() > 0:
		return "", fmt.Errorf("gateway %s: %s", gateway, strings.TrimSpace(errs.String()))
	case err != nil:
		return "", fmt.Errorf("gateway %s: %w; check that it runs: kubectl get pods -n %s", gateway, err, install.GatewayNamespace)
	}
	return out.String(), nil
}

// limited stores the beginning of what is written.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), metricsAtMost-l.Len())])
	return len(p), nil
}

// linkBytes matches the counters of links; labels of a metric are sorted by name.
var linkBytes = regexp.MustCompile(`(?m)^strait_link_bytes_total\{direction="(egress|ingress)",peer="([^"]*)"\} (\S+)$`)

// trafficOf finds the counters of a link in the metrics of its gateway, nil if they are not there.
func trafficOf(metrics, link string) (t *Traffic) {
	for _, m := range linkBytes.FindAllStringSubmatch(metrics, -1) {
		n, err := strconv.ParseFloat(m[3], 64)
		if err != nil || m[2] != link {
			continue
		}
		if t == nil {
			t = new(Traffic)
		}
		if m[1] == "egress" {
			t.Sent = uint64(n)
		} else {
			t.Received = uint64(n)
		}
	}
	return t
}

// columns returns what was received and sent for a table, empty if it is not known.
func (t *Traffic) columns() (both [2]string) {
	if t == nil {
		return both
	}
	return [2]string{inBytes(t.Received), inBytes(t.Sent)}
}

// inBytes returns a number of bytes with a binary prefix.
func inBytes(n uint64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	size, prefix := float64(n)/(1<<10), 0
	for ; size >= 1<<10 && prefix < 4; prefix++ {
		size /= 1 << 10
	}
	return fmt.Sprintf("%.1f %ciB", size, "KMGTP"[prefix])
}
