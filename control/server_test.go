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
	"sync/atomic"
	"testing"
	"time"
)

// serveOn runs a server until the test ends.
func serveOn(t *testing.T, l net.Listener, identify func(net.Conn) (Link, bool), accept func(Link, Announcement) error, patience time.Duration) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- serve(newAdmission(l, identify), accept, slog.New(slog.DiscardHandler), patience) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}

func always(net.Conn) (Link, bool) { return theLink, true }

func acceptAll(Link, Announcement) error { return nil }

func connect(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request as it is and gives the answer's status and body; status 0 = the
// server hung up.
func ask(t *testing.T, l net.Listener, request string) (int, string) {
	t.Helper()
	c := connect(t, l)
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

func TestTheServerAnswersAsDocumented(t *testing.T) {
	l := listen(t)
	serveOn(t, l, always, func(link Link, a Announcement) error {
		if link != theLink {
			return fmt.Errorf("came over %v", link)
		}
		if a.Cluster != "b" {
			return errors.New("the cluster \x1b here is called b")
		}
		return nil
	}, patience)
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
		"unknown version": {put("/v2/announcement", string(b)), 404, `{"error":"not served; GET /versions says what is"}`},
		"another path":    {"GET /metrics HTTP/1.1\r\nHost: link\r\n\r\n", 404, `{"error":"not served; GET /versions says what is"}`},
		"long header":     {"GET /versions HTTP/1.1\r\nHost: link\r\nA: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431, ""},
		"not HTTP":        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400, ""},
	} {
		var status int
		var body string
		eventually(t, "an answer", func() bool { // the server may still count the last connection
			status, body = ask(t, l, c.request)
			return status != 0
		})
		if status != c.status || !strings.HasPrefix(body, c.body) {
			t.Errorf("%s: %d %s, want %d %s", name, status, body, c.status, c.body)
		}
	}
}

func TestT17_ASlowCallerIsHungUpOn(t *testing.T) {
	l := listen(t)
	serveOn(t, l, always, acceptAll, 50*time.Millisecond)
	for name, begin := range map[string]string{
		"says nothing":      "",
		"stops in a header": "GET /versions HTTP/1.1\r\nHo",
		"stops in the body": "PUT /v1/announcement HTTP/1.1\r\nHost: link\r\nContent-Length: 99\r\n\r\n{",
		"stays after":       "GET /versions HTTP/1.1\r\nHost: link\r\n\r\n",
	} {
		c := connect(t, l)
		if _, err := io.WriteString(c, begin); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
}

func TestT17_ALinkHasTwoConnectionsAtMost(t *testing.T) {
	l := listen(t)
	var strangers atomic.Bool
	serveOn(t, l, func(net.Conn) (Link, bool) { return theLink, !strangers.Load() }, acceptAll, patience)
	answered := func(c net.Conn) bool {
		if _, err := io.WriteString(c, "GET /versions HTTP/1.1\r\nHost: link\r\n\r\n"); err != nil {
			return false
		}
		_, err := c.Read(make([]byte, 1))
		return err == nil
	}
	first, second := connect(t, l), connect(t, l)
	if !answered(first) || !answered(second) {
		t.Fatal("two connections are not served")
	}
	if answered(connect(t, l)) {
		t.Error("a third connection is served")
	}
	first.Close()
	eventually(t, "a connection in place of the first", func() bool {
		c := connect(t, l)
		defer c.Close()
		return answered(c)
	})
	strangers.Store(true)
	second.Close()
	if answered(connect(t, l)) {
		t.Error("a connection over no link is served")
	}
}

func TestServeEndsAfterTheLastAnswer(t *testing.T) {
	l := listen(t)
	asked, release := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(l, always, func(Link, Announcement) error { close(asked); <-release; return nil }, slog.New(slog.DiscardHandler))
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
	<-asked
	l.Close()
	if _, err := io.Copy(io.Discard, c); err != nil { // until the server hangs up
		t.Log(err)
	}
	select {
	case err := <-ended:
		t.Errorf("ended with %v while it asked whether to accept", err)
	default:
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
