package control

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"strait.dev/strait/test/wait"
)

// serveOn runs a server until the test ends.
func serveOn(t *testing.T, l net.Listener, identify func(net.Conn) (Link, bool), accept func(Link, Announcement) error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- Serve(l, identify, accept, nil, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}

func always(net.Conn) (Link, bool) { return theLink, true }

func acceptAll(Link, Announcement) error { return nil }

// ask sends a request as it is and gives the answer's status and body; status 0 = the
// server hung up.
func ask(t *testing.T, l net.Listener, request string) (int, string) {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, request) // the server may close before the end
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, strings.TrimSpace(string(b))
}

func put(path, body string) string {
	return fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: link\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// Over TCP: a caller that is still sending gets its answer before the end of the
// connection, which is TCP's to do.
func TestTheServerAnswersAsDocumented(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, always, func(link Link, a Announcement) error {
		if link != theLink {
			return fmt.Errorf("came over %v", link)
		}
		if a.Cluster != "b" {
			return errors.New("the cluster \x1b here is called b")
		}
		return nil
	})
	good := announcement()
	b, err := good.encode()
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(b), `"cluster":"b"`, `"cluster":"c"`, 1)
	for name, c := range map[string]struct {
		request string
		status  int
		body    string
	}{
		"versions":        {"GET /versions HTTP/1.1\r\nHost: link\r\n\r\n", 200, `{"versions":[1]}`},
		"accepted":        {put("/v1/announcement", string(b)), 200, "{}"},
		"refused":         {put("/v1/announcement", other), 409, "{\"refused\":\"the cluster \ufffd here is called b\"}"},
		"malformed":       {put("/v1/announcement", `{"cluster":"b"}`), 400, `{"error":"gateway: \"\" is not an RFC`},
		"too long":        {put("/v1/announcement", strings.Repeat(" ", maxBody+1)), 400, `{"error":"is longer than 65536 bytes"}`},
		"unknown version": {put("/v2/announcement", string(b)), 404, `{"error":"not served; GET /versions lists the versions"}`},
		"another path":    {"GET /metrics HTTP/1.1\r\nHost: link\r\n\r\n", 404, `{"error":"not served; GET /versions lists the versions"}`},
		"long header":     {"GET /versions HTTP/1.1\r\nHost: link\r\nA: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431, ""},
		"not HTTP":        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400, ""},
	} {
		var status int
		var body string
		wait.Until(t, "the server answers", func() bool { // it may still count the last connection
			status, body = ask(t, l, c.request)
			return status != 0
		})
		if status != c.status || !strings.HasPrefix(body, c.body) {
			t.Errorf("%s: %d %s, want %d %s", name, status, body, c.status, c.body)
		}
	}
}

func TestT17_ASlowCallerIsHungUpOn(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{
		"says nothing":      "",
		"stops in a header": "GET /versions HTTP/1.1\r\nHo",
		"stops in the body": "PUT /v1/announcement HTTP/1.1\r\nHost: link\r\nContent-Length: 99\r\n\r\n{",
		"stays after":       "GET /versions HTTP/1.1\r\nHost: link\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			l := listen(t)
			serveOn(t, l, always, acceptAll)
			begun := time.Now()
			c := connect(t, l)
			if _, err := io.WriteString(c, begin); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			// After its last words the server waits a little for the caller to read them.
			if took := time.Since(begun); took < patience || took > patience+time.Second {
				t.Errorf("%s: hung up after %v, want %v", name, took, patience)
			}
		})
	}
}

func TestT17_ALinkHasFourConnectionsAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := listen(t)
		unknown := false
		serveOn(t, l, func(net.Conn) (Link, bool) { return theLink, !unknown }, acceptAll)
		answered := func(c net.Conn) bool {
			if _, err := io.WriteString(c, "GET /versions HTTP/1.1\r\nHost: link\r\n\r\n"); err != nil {
				return false
			}
			_, err := c.Read(make([]byte, 1<<10))
			return err == nil
		}
		var open []net.Conn
		for range maxConnections {
			c := connect(t, l)
			if open = append(open, c); !answered(c) {
				t.Fatalf("connection %d is not served", len(open))
			}
		}
		if answered(connect(t, l)) {
			t.Error("one more connection is served")
		}
		open[0].Close()
		synctest.Wait()
		if open[0] = connect(t, l); !answered(open[0]) {
			t.Error("no connection takes the place of the first")
		}
		for _, c := range open {
			c.Close()
		}
		synctest.Wait()
		unknown = true
		if answered(connect(t, l)) {
			t.Error("a connection over no link is served")
		}
	})
}

func TestServeEndsAfterTheLastAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := listen(t)
		release := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- Serve(l, always, func(Link, Announcement) error { <-release; return nil }, nil, slog.New(slog.DiscardHandler))
		}()
		a := announcement()
		b, err := a.encode()
		if err != nil {
			t.Fatal(err)
		}
		c := connect(t, l)
		if _, err := io.WriteString(c, put("/v1/announcement", string(b))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the server asks whether to accept
		l.Close()
		if _, err := io.Copy(io.Discard, c); err != nil { // until the server hangs up
			t.Log(err)
		}
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("ended with %v while it asked whether to accept", err)
		default:
		}
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
