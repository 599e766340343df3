package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"strait.dev/strait/config"
)

// The cache is one file: a comment line with metadata, followed by the configuration.
// `strait gateway --config` can read it, too.
const (
	cacheName   = "gateway.yaml"
	cachePrefix = "# strait cache: "
)

type identity struct {
	Peering string `json:"peering"`
	Gateway string `json:"gateway"`
}

type cacheLine struct {
	identity
	Saved time.Time `json:"saved"`
}

func writeCache(dir string, of identity, c *config.Gateway) error {
	line, err := json.Marshal(cacheLine{of, time.Now().UTC()})
	if err != nil {
		return err
	}
	text, err := c.YAML()
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, "."+cacheName+"-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // fails after a successful rename
	_, err = fmt.Fprintf(file, "%s%s\n%s", cachePrefix, line, text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(dir, cacheName))
}

// readCache reads the cache of a gateway. It does not validate the configuration.
func readCache(dir string, of identity) (c *config.Gateway, saved time.Time, err error) {
	path := filepath.Join(dir, cacheName)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, saved, err
	}
	c, saved, err = parseCache(text, of)
	if err != nil {
		return nil, saved, config.WithFile(path, err)
	}
	return c, saved, nil
}

func parseCache(text []byte, of identity) (c *config.Gateway, saved time.Time, err error) {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	about, ok := bytes.CutPrefix(first, []byte(cachePrefix))
	var line cacheLine
	if !ok || json.Unmarshal(about, &line) != nil {
		return nil, saved, errors.New("not a cached configuration; remove the file")
	}
	if line.identity != of {
		return nil, saved, fmt.Errorf("it belongs to gateway %q of Peering %q; use a separate directory for each gateway", line.Gateway, line.Peering)
	}
	c, err = config.Parse(text)
	return c, line.Saved, err
}
