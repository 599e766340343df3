package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/client"
)

// Changes of nodes are written at most every saveInterval, and for at most one part in
// saveShare of the time: for 5 000 nodes that is every 4 s. A gateway that is killed in
// between while the API server is unreachable starts with the previous nodes. A change of
// the links or of the remote cluster is written at once: without it the restarted gateway
// would have no link.
const (
	saveInterval = time.Second
	saveShare    = 20
)

// saver writes the cache. It runs concurrently with the goroutine that applies
// configurations, so that a slow disk or continuous changes do not delay routes.
type saver struct {
	dir  string
	of   identity
	log  *slog.Logger
	next chan *config.Gateway // the latest unwritten configuration; capacity one
	now  client.Signal        // next is to be written without delay

	queued *config.Gateway // latest; used only by the goroutine that calls save
}

func newSaver(dir string, of identity, log *slog.Logger) *saver {
	return &saver{dir: dir, of: of, log: log, next: make(chan *config.Gateway, 1), now: make(client.Signal, 1)}
}

// save queues the configuration in effect, which must not be changed afterwards. It is
// called from one goroutine.
func (s *saver) save(c *config.Gateway) {
	select {
	case <-s.next: // superseded
	default:
	}
	if q := s.queued; q == nil || !reflect.DeepEqual(q.WireGuard, c.WireGuard) || !reflect.DeepEqual(q.Remote, c.Remote) {
		s.now.Set()
	}
	s.queued = c
	s.next <- c
}

// run writes queued configurations: the first at once, and the last when ctx ends.
func (s *saver) run(ctx context.Context) {
	for {
		var begun time.Time
		select {
		case c := <-s.next:
			begun = time.Now()
			select {
			case <-s.now:
			default:
			}
			s.write(c)
		case <-ctx.Done():
			select {
			case c := <-s.next:
				s.write(c)
			default:
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-s.now:
		case <-time.After(max(saveInterval, saveShare*time.Since(begun))):
		}
	}
}

func (s *saver) write(c *config.Gateway) {
	if err := writeCache(s.dir, s.of, c); err != nil {
		s.log.Warn("cannot cache the configuration: a restart will need the API server", "error", err)
	}
	debug.FreeOSMemory() // encoding leaves garbage of several times the document's size
}

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
