package control

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"strait.dev/strait/internal/ratelimit"
)

// Log lines that a far end causes: burst at once, and one more after each interval.
const (
	lineInterval = 10 * time.Second
	lineBurst    = 10
)

// LimitLog returns a logger that gives each link, which an attribute "link" names, a budget of
// lines. The next line states how many were left out. Announcers, Importers and servers to which
// it is passed share the budgets; each limits another logger for itself.
func LimitLog(log *slog.Logger) *slog.Logger {
	if _, limited := log.Handler().(*lineHandler); limited {
		return log
	}
	return slog.New(&lineHandler{Handler: log.Handler(), budget: &lineBudget{links: make(map[string]*lines)}})
}

// lineBudget is the budget of each link, by name. It is safe for concurrent use.
type lineBudget struct {
	mu    sync.Mutex
	links map[string]*lines
}

type lines struct {
	ratelimit.Bucket
	omitted int
}

// take counts a line, and returns how many were left out before it.
func (b *lineBudget) take(link string, now time.Time) (omitted int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.links[link]
	if of == nil {
		maps.DeleteFunc(b.links, func(_ string, other *lines) bool { return other.Full(now) })
		of = new(lines)
		b.links[link] = of
	}
	if !of.Take(now, lineInterval, lineBurst) {
		of.omitted++
		return 0, false
	}
	omitted, of.omitted = of.omitted, 0
	return omitted, true
}

// lineHandler writes the lines of one link that are within its budget.
type lineHandler struct {
	slog.Handler
	budget *lineBudget
	link   string // empty: of all links
}

// Handle implements slog.Handler.
func (h *lineHandler) Handle(ctx context.Context, r slog.Record) error {
	omitted, ok := h.budget.take(h.link, time.Now())
	if !ok {
		return nil
	}
	if omitted > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("omitted", omitted))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	of := *h
	of.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		if a.Key == "link" {
			of.link = a.Value.String()
		}
	}
	return &of
}

// WithGroup implements slog.Handler.
func (h *lineHandler) WithGroup(name string) slog.Handler {
	of := *h
	of.Handler = h.Handler.WithGroup(name)
	return &of
}
