package control

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/test/logbuffer"
)

// serveLogged is serveOn with the log of the server.
func serveLogged(t *testing.T, l net.Listener, accept func(Link, Announcement) error) *logbuffer.Buffer {
	t.Helper()
	log, ended := new(logbuffer.Buffer), make(chan error, 1)
	go func() { ended <- Serve(l, always, accept, nil, slog.New(slog.NewTextHandler(log, nil))) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	return log
}

// flood sends a request on one connection again and again for some time, and returns the
// number of answers.
//
//strait:virtualtime
func flood(t *testing.T, l *pipes, request string, span time.Duration) (answers int) {
	t.Helper()
	c := connect(t, l)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for {
			if _, err := io.WriteString(c, request); err != nil {
				return
			}
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(span))
	for answered := bufio.NewReader(c); ; answers++ {
		r, err := http.ReadResponse(answered, nil)
		if err != nil {
			break
		}
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	c.Close()
	<-sent
	return answers
}

func TestT10_ALinkHasABudgetOfRequestsAndOfLogLines(t *testing.T) {
	t.Parallel()
	good := announcement()
	b, err := good.encode()
	ok(t, err)
	for name, c := range map[string]struct {
		request string
		lines   int // in a minute
	}{
		"malformed announcements": {put("/v1/announcement", "x"), lineBurst + 6},
		"announcements":           {put("/v1/announcement", string(b)), 0},
		"other requests":          {"GET /metrics HTTP/1.1\r\nHost: link\r\n\r\n", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := listen(t)
			var accepted atomic.Int64
			log := serveLogged(t, l, func(Link, Announcement) error { accepted.Add(1); return errors.New("no") })
			n := flood(t, l, c.request, time.Minute)
			if most := requestBurst + int(time.Minute/requestInterval); n > most || n < most-5 || accepted.Load() > int64(most) {
				t.Errorf("%s: %d answers in a minute, want %d; %d are considered", name, n, most, accepted.Load())
			}
			if lines := strings.Count(log.String(), "\n"); lines > c.lines || lines < c.lines-1 {
				t.Errorf("%s: %d lines in a minute, want %d", name, lines, c.lines)
			}
			if c.lines > 0 && !strings.Contains(log.String(), "omitted=99") {
				t.Errorf("the log does not say that lines are left out:\n%s", log)
			}
		})
	}
}

func TestT10_ALinkHasABudgetOfConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := listen(t)
		serveOn(t, l, always, acceptAll)
		served := 0
		for range 600 { // a minute
			c := connect(t, l)
			_, _ = io.WriteString(c, "not HTTP\r\n\r\n")
			if answer, err := io.ReadAll(c); err == nil && len(answer) > 0 {
				served++
			}
			c.Close()
			time.Sleep(100 * time.Millisecond)
		}
		if most := connectBurst + 60*int(time.Second/connectInterval); served > most+1 || served < connectBurst {
			t.Errorf("%d connections in a minute, want at most %d", served, most)
		}
	})
}

// What one link logs takes no lines from another one.
func TestEachLinkHasItsOwnBudgetOfLogLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		buffer := new(logbuffer.Buffer)
		log := LimitLog(slog.New(slog.NewTextHandler(buffer, nil)))
		if LimitLog(log) != log {
			t.Error("a part that limits a limited log has another budget")
		}
		for range 1000 {
			log.With("link", "b-0").WithGroup("g").Warn("loud")
		}
		log.With("link", "b-1").Warn("quiet")
		log.Warn("of no link")
		time.Sleep(lineInterval)
		log.With("link", "b-0").Warn("later")
		text := buffer.String()
		if n := strings.Count(text, "loud"); n != lineBurst || !strings.Contains(text, "quiet") || !strings.Contains(text, "of no link") || !strings.Contains(text, "later link=b-0 omitted=990") {
			t.Errorf("%d lines of the link that logs most; the log is\n%s", n, text)
		}
	})
}

// A far end that sends large pages all the time, and has sent as many as it may at once, is
// asked at a rate of bytes, even if it makes the receiver begin again and again.
func TestT10_PagesAreReceivedAtARateOfBytes(t *testing.T) {
	t.Parallel()
	for _, importers := range []int{1, 5} {
		synctest.Test(t, func(t *testing.T) {
			content := strings.Repeat("x", 1_400_000)
			sent := 0
			e, _ := hostile(t, func(at servicePosition, n int64) string {
				sent += len(content)
				return pageText("e", at.revision+1, 1, true, record("web", content[:len(content)-int(n%100)]))
			})
			budget := new(ratelimit.Bucket)
			budget.Spend(time.Now(), time.Second/receiveRate, receiveBurst)
			for range importers {
				i := NewImporter(ImporterOptions{
					Up: func() []Link { return []Link{theLink} }, Dial: func(ctx context.Context, _ Link) (net.Conn, error) { return e.wire.dial(ctx) },
					Jitter: func() float64 { return 0 }, Store: &received{records: make(map[ServiceKey]string)}, Budget: budget, Log: slog.New(slog.DiscardHandler),
				})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); i.Run(ctx) }()
				time.Sleep(10 * time.Second / time.Duration(importers))
				cancel()
				<-ended
			}
			if most := 10*receiveRate + 2*len(content); sent > most || sent < most/2 {
				t.Errorf("%d importers: %d bytes in 10 s, want at most %d", importers, sent, most)
			}
		})
	}
}

// A header, a status line or a body of the far end may have terminal escapes in it.
func TestTextOfTheFarEndIsPlainInErrors(t *testing.T) {
	t.Parallel()
	const escape = "\x1b]0;title\x07\x1b[2J"
	for name, answer := range map[string]string{
		"a header":         "HTTP/1.1 200 OK\r\nX" + escape + "\r\n\r\n",
		"a value":          "HTTP/1.1 200 OK\r\nContent-Length: " + escape + "\r\n\r\n",
		"the status":       "HTTP/1.1 2" + escape + "0 OK\r\n\r\n",
		"the protocol":     escape + "\r\n\r\n",
		"the encoding":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + escape + "\r\n\r\n",
		"the chunk length": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + escape + "\r\n",
		"the body":         response(200, escape),
		"a refused body":   response(409, escape),
		"a long number":    response(200, `{"versions":[`+strings.Repeat("9", 9000)+`],"revision":`+strings.Repeat("9", 9000)+`}`),
		"a record":         response(200, `{"epoch":"e","revision":2,"snapshot":2,"digest":"","services":[{"namespace":"`+`\u001b[2J`+`"}]}`),
	} {
		l := says(t, answer)
		dial := func(ctx context.Context, _ Link) (net.Conn, error) { return l.dial(ctx) }
		s := newSource(dial)
		_, asked := s.ask(t.Context(), servicePosition{})
		s.close()
		_, announced := announce(t.Context(), func(ctx context.Context) (net.Conn, error) { return l.dial(ctx) }, []byte("{}"))
		for what, err := range map[string]error{"asking": asked, "announcing": announced} {
			if err == nil {
				if what == "asking" {
					t.Errorf("%s: no error", name)
				}
				continue
			}
			if text := err.Error(); strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(text) > 1024 {
				t.Errorf("%s: the error of %s is %q", name, what, text)
			}
		}
	}
}
