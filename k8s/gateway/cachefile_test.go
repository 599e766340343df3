package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"strait.dev/strait/config"
)

var ours = identity{Peering: "b", Gateway: "b-0"}

const cachedText = `# strait cache: {"peering":"b","gateway":"b-0","saved":"2030-01-01T00:00:00Z"}
apiVersion: strait.dev/v1alpha1
kind: GatewayConfig
cluster: a
overlay: {addresses: [10.80.0.1]}
wireguard: {privateKeyFile: private.key}
`

func TestTheCacheGivesBackWhatWasPutIntoIt(t *testing.T) {
	dir := t.TempDir()
	c, err := config.Parse([]byte(cachedText))
	must(t, err)
	for _, cluster := range []string{"a", "b"} { // the second replaces the first
		c.Cluster = cluster
		must(t, writeCache(dir, ours, c))
		got, saved, err := readCache(dir, ours)
		must(t, err)
		if got.Cluster != cluster || saved.IsZero() {
			t.Errorf("cluster %s, saved %v", got.Cluster, saved)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%d files left behind, %v", len(files), err)
	}
}

func TestACacheThatIsNotThisGatewaysIsNotUsed(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"of another gateway": {strings.Replace(cachedText, `"b-0"`, `"b-1"`, 1), `it belongs to gateway "b-1" of Peering "b"`},
		"of another peering": {strings.Replace(cachedText, `"b"`, `"c"`, 1), `of Peering "c"`},
		"without its line":   {cachedText[strings.Index(cachedText, "\n")+1:], "not a cached configuration"},
		"cut off":            {cachedText[:40], "not a cached configuration"},
		"empty":              {"", "not a cached configuration"},
		"cut off later":      {cachedText[:len(cachedText)-20], "not valid YAML"},
	} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, cacheName), []byte(c.text), 0o600))
		if _, _, err := readCache(dir, ours); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if _, _, err := readCache(t.TempDir(), ours); err == nil {
		t.Error("no cache is one")
	}
}

func FuzzCache(f *testing.F) {
	f.Add([]byte(cachedText))
	f.Add([]byte(cachePrefix + "{}\n"))
	f.Add([]byte(cachePrefix + "null"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, _, err := parseCache(text, ours)
		if (c == nil) != (err != nil) {
			t.Errorf("%v, %v", c, err)
		}
		if err == nil && !strings.HasPrefix(string(text), cachePrefix) {
			t.Error("taken without its line")
		}
	})
}
