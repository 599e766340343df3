package operator

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

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
)

// ReadTraffic adds to the links what each carried. The gateways have the counters, not their
// reports: a report that changed with every packet would wake all that watch it. A gateway
// that cannot be queried is an error, and its links have no Traffic.
func (r *Report) ReadTraffic(ctx context.Context, c Cluster) error {
	return r.readTraffic(ctx, c, c.Client.Exec)
}

func (r *Report) readTraffic(ctx context.Context, c Cluster, exec Exec) error {
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
			ctx, cancel := context.WithTimeout(ctx, trafficTimeout)
			defer cancel()
			text, err := exec.Metrics(ctx, install.GatewayNamespace, gateway)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, fmt.Errorf("%s: %w", c.Name, err))
				return
			}
			for _, l := range its {
				l.Traffic = trafficOf(string(text), l.Remote)
			}
		})
	}
	all.Wait()
	return failed
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
