package gateway

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"strait.dev/strait/config"
)

// The cache is written at most every saveInterval, and takes at most one part in
// saveShare of the time: for 5 000 nodes that is every 4 s. A gateway that is killed in
// between while the API server is away starts with what was in force before.
const (
	saveInterval = time.Second
	saveShare    = 20
)

// saver keeps the cache. It works beside what applies configurations: a slow disk, or
// changes all the time, hold up no route.
type saver struct {
	dir  string
	of   identity
	log  *slog.Logger
	next chan *config.Gateway // the latest that is not written; holds one
}

// save gives the saver what is in force from now on, and which nobody changes any more.
// It is called from one goroutine.
func (s *saver) save(c *config.Gateway) {
	select {
	case <-s.next: // out of date
	default:
	}
	s.next <- c
}

// run writes what it is given: the first at once, and at the end of ctx the last.
func (s *saver) run(ctx context.Context) {
	for {
		var begun time.Time
		select {
		case c := <-s.next:
			begun = time.Now()
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
		case <-time.After(max(saveInterval, saveShare*time.Since(begun))):
		}
	}
}

func (s *saver) write(c *config.Gateway) {
	if err := writeCache(s.dir, s.of, c); err != nil {
		s.log.Warn("the configuration in force is not cached: a restart will need the API server", "error", err)
	}
	debug.FreeOSMemory() // a document leaves several times its size behind
}
