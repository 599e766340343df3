package kube

import (
	"fmt"
	"strings"
	"testing"
)

// Stored returns the size of etcd's database in bytes, as the API server measures it.
func (c *Cluster) Stored(t testing.TB) int64 {
	t.Helper()
	text, err := c.client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	must(t, err)
	for line := range strings.Lines(string(text)) {
		var n float64
		if labels, value, ok := strings.Cut(line, "} "); ok && strings.HasPrefix(labels, "apiserver_storage_size_bytes{") {
			if _, err := fmt.Sscan(value, &n); err == nil {
				return int64(n)
			}
		}
	}
	t.Fatal("the API server does not measure the size of etcd")
	return 0
}
