package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestT12_LogLinesCausedByUnknownSendersAreBounded(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	q := newQuiet(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	now := time.Unix(1_700_000_000, 0)
	say := func(h slog.Handler, level slog.Level, message string) {
		if err := h.Handle(context.Background(), slog.NewRecord(now, level, message, 0)); err != nil {
			t.Fatal(err)
		}
	}
	count := func(text string) int { return strings.Count(out.String(), text) }

	for i := range 100_000 {
		say(q.WithAttrs([]slog.Attr{slog.Int("link", i)}), slog.LevelWarn, fmt.Sprintf("wireguard: peer(abcd…) - Failed to %d", i))
	}
	if n := count("Failed to"); n != quietBurst || q.leftOut.Load() != 100_000-quietBurst {
		t.Errorf("%d lines, %d left out", n, q.leftOut.Load())
	}
	for kind := range 26 {
		say(q, slog.LevelInfo, string(rune('a'+kind))+": link is up")
	}
	if n := count(": link is up"); n < 13 { // some kinds may share the bucket
		t.Errorf("%d of 26 lines of other kinds", n)
	}
	for range 1000 {
		say(q, slog.LevelDebug, "details")
	}
	if n := count("details"); n != 1000 {
		t.Errorf("%d lines of debug", n)
	}
	now = now.Add(quietEvery)
	say(q, slog.LevelWarn, "wireguard: peer(abcd…) - later")
	say(q, slog.LevelWarn, "wireguard: peer(abcd…) - too soon")
	if count("later") != 1 || count("too soon") != 0 {
		t.Error("the bucket does not fill with time")
	}
}
