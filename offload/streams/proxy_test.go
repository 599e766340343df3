package streams

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"strait.dev/strait/offload/protocol"
)

// memory is a listener in memory.
type memory chan net.Conn

func (m memory) Accept() (net.Conn, error) {
	conn, ok := <-m
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (m memory) Close() error   { return nil }
func (m memory) Addr() net.Addr { return &net.TCPAddr{} }

func (m memory) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	m <- far
	return near, nil
}

// chain is a client, a proxy and the next server, in memory.
type chain struct {
	proxy   memory
	session context.Context
	end     context.CancelFunc // of the session
	seen    chan *http.Request // by the next server
}

// newChain returns a chain whose next server is next.
func newChain(t *testing.T, stream string, query string, next http.HandlerFunc) *chain {
	t.Helper()
	far := make(memory)
	c := &chain{proxy: make(memory), seen: make(chan *http.Request, 1000)}
	c.session, c.end = context.WithCancel(t.Context())
	transport := &http.Transport{DialContext: far.dial, MaxResponseHeaderBytes: protocol.MaxHeader, DisableCompression: true}
	p := New(Options{
		Next: "the next server", Transport: transport, Wait: 20 * time.Second, Log: slog.New(slog.DiscardHandler),
		Answer: func(w http.ResponseWriter, code int, err error) { http.Error(w, err.Error(), code) },
	})
	servers := []*http.Server{
		{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.seen <- r; next(w, r) })},
		{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.Serve(c.session, w, r, stream, &url.URL{Scheme: "http", Host: "next", Path: "/fixed", RawQuery: query})
		})},
	}
	for i, l := range []memory{far, c.proxy} {
		go servers[i].Serve(l)
	}
	t.Cleanup(func() {
		c.end()
		transport.CloseIdleConnections()
		for i, l := range []memory{far, c.proxy} {
			close(l)
			servers[i].Close()
		}
	})
	return c
}

// open sends a request, and returns the answer and the connection.
func (c *chain) open(t *testing.T, method, header string) (*http.Response, net.Conn, *bufio.Reader) {
	t.Helper()
	conn, _ := c.proxy.dial(t.Context(), "", "")
	t.Cleanup(func() { conn.Close() })
	go fmt.Fprintf(conn, "%s /asked?for=more HTTP/1.1\r\nHost: proxy\r\n%s\r\n", method, header)
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	return answer, conn, in
}

const upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"

// echoes upgrades the connection and echoes what arrives.
func echoes(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "SPDY/3.1")
	w.Header().Set("X-Stream-Protocol-Version", "v4.channel.k8s.io")
	w.Header().Set("Set-Cookie", "a=b")
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, in, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.Copy(conn, in)
}

func answers(code int, header map[string]string, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(code)
		io.WriteString(w, text)
	}
}

func TestOnlyAStreamIsPassedOn(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 2*protocol.MaxHeader)
	for name, c := range map[string]struct {
		stream, method, header string
		next                   http.HandlerFunc
		code                   int
		text                   string
	}{
		"a log":                       {protocol.Log, "GET", "", answers(200, nil, "line"), 200, "line"},
		"an upgrade":                  {protocol.Exec, "POST", upgrade, echoes, 101, ""},
		"an upgrade by GET":           {protocol.Exec, "GET", upgrade, echoes, 101, ""},
		"an error of an agent":        {protocol.Log, "GET", "", answers(404, nil, `{"error":"no pod"}`), 404, "no pod"},
		"an error of an API server":   {protocol.Log, "GET", "", answers(400, nil, `{"kind":"Status","message":"is waiting"}`), 400, "is waiting"},
		"an error of a kubelet":       {protocol.Exec, "POST", upgrade, answers(500, nil, "no runtime\n"), 500, "no runtime"},
		"an error of enormous length": {protocol.Log, "GET", "", answers(500, nil, strings.Repeat("y", 1<<20)), 500, strings.Repeat("y", maxText-3) + "..."},
		"an error about credentials":  {protocol.Log, "GET", "", answers(401, nil, `{"message":"Unauthorized"}`), 502, "Unauthorized"},
		"a redirect":                  {protocol.Log, "GET", "", answers(307, map[string]string{"Location": "http://169.254.169.254/"}, ""), 502, "unexpected answer with status 307"},
		"a redirect of an upgrade":    {protocol.Exec, "POST", upgrade, answers(302, map[string]string{"Location": "http://other/"}, ""), 502, "unexpected answer with status 302"},
		"an upgrade of a log":         {protocol.Log, "GET", upgrade, echoes, 502, "unexpected answer with status 101"},
		"no upgrade":                  {protocol.Exec, "POST", upgrade, answers(200, nil, "hello"), 502, "unexpected answer with status 200"},
		"another upgrade":             {protocol.Exec, "POST", "Connection: Upgrade\r\nUpgrade: websocket\r\n", echoes, 502, "unexpected upgrade of the connection"},
		"a huge header":               {protocol.Log, "GET", "", answers(200, map[string]string{"X-Huge": huge}, ""), 502, "the next server does not answer as expected"},
		"no answer":                   {protocol.Exec, "POST", upgrade, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 504, "the next server does not answer within 20s"},
		"an error that does not end": {protocol.Log, "GET", "", func(w http.ResponseWriter, r *http.Request) {
			answers(500, map[string]string{"Content-Length": "100"}, "a")(w, r)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, 504, "the next server does not answer within 20s"},
		"a request without an upgrade": {protocol.Exec, "POST", "", echoes, 400, "the request asks for no upgrade of its connection; ask for SPDY/3.1 or websocket"},
		"a request for HTTP/2":         {protocol.Exec, "POST", "Connection: Upgrade\r\nUpgrade: h2c\r\n", echoes, 400, "the request asks for no upgrade of its connection; ask for SPDY/3.1 or websocket"},
		"a request with a body":        {protocol.Exec, "POST", upgrade + "Content-Length: 4\r\n\r\nab", echoes, 400, "the request has a body; send it without one"},
		"a request with chunks":        {protocol.Log, "GET", "Transfer-Encoding: chunked\r\n\r\n0\r\n", answers(200, nil, "line"), 400, "the request has a body; send it without one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				chain := newChain(t, c.stream, "", c.next)
				answer, conn, in := chain.open(t, c.method, c.header)
				if answer.StatusCode != c.code {
					t.Fatalf("the status is %d, want %d", answer.StatusCode, c.code)
				}
				for _, name := range []string{"Location", "Set-Cookie", "X-Huge"} {
					if answer.Header.Get(name) != "" {
						t.Errorf("the answer has the header %s", name)
					}
				}
				if c.code != http.StatusSwitchingProtocols {
					text, err := io.ReadAll(answer.Body)
					if got := strings.TrimSuffix(string(text), "\n"); err != nil || got != c.text {
						t.Errorf("the answer is %.60q, %v, want %.60q", got, err, c.text)
					}
					return
				}
				if is := answer.Header.Get("X-Stream-Protocol-Version"); is != "v4.channel.k8s.io" {
					t.Errorf("the protocol is %q", is)
				}
				fmt.Fprint(conn, "ping")
				got := make([]byte, 4)
				if _, err := io.ReadFull(in, got); err != nil || string(got) != "ping" {
					t.Errorf("the echo is %q, %v", got, err)
				}
			})
		})
	}
}

func TestNothingOfTheRequestIsPassedOnButTheUpgrade(t *testing.T) {
	t.Parallel()
	const hostile = "Authorization: Bearer stolen\r\nImpersonate-User: admin\r\nImpersonate-Group: system:masters\r\nX-Remote-User: admin\r\n" +
		"X-Forwarded-For: 10.0.0.1\r\nCookie: a=b\r\nReferer: x\r\nTe: trailers\r\nUser-Agent: evil\r\nKeep-Alive: 5\r\n" +
		"Sec-Websocket-Key: a2V5\r\nX-Stream-Protocol-Version: v5.channel.k8s.io\r\n" +
		"Sec-Websocket-Protocol: v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c3RvbGVu\r\n"
	for stream, want := range map[string][]string{
		protocol.Log:  nil,
		protocol.Exec: {"Connection: Upgrade", "Content-Length: 0", "Sec-Websocket-Key: a2V5", "Sec-Websocket-Protocol: v4.channel.k8s.io", "Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v5.channel.k8s.io"},
	} {
		synctest.Test(t, func(t *testing.T) {
			chain := newChain(t, stream, "container=c", answers(500, nil, ""))
			method := map[bool]string{true: "GET", false: "POST"}[stream == protocol.Log]
			chain.open(t, method, upgrade+hostile)
			seen := <-chain.seen
			var got []string
			for name, values := range seen.Header {
				got = append(got, name+": "+strings.Join(values, "|"))
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: the next server gets %q, want %q", stream, got, want)
			}
			if seen.URL.String() != "/fixed?container=c" || seen.Host != "next" || seen.Method != method {
				t.Errorf("%s: the next server gets %s %s of %s", stream, seen.Method, seen.URL, seen.Host)
			}
		})
	}
}

func TestTheNumberOfStreamsIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		chain := newChain(t, protocol.Exec, "", echoes)
		var first net.Conn
		for i := range protocol.MaxStreams {
			answer, conn, _ := chain.open(t, "POST", upgrade)
			if answer.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("stream %d: %s", i, answer.Status)
			}
			if first == nil {
				first = conn
			}
		}
		answer, _, _ := chain.open(t, "POST", upgrade)
		text, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(text), "64 logs, commands and forwarded ports are open already") {
			t.Errorf("one more is answered with %s, %q", answer.Status, text)
		}
		first.Close()
		synctest.Wait()
		if answer, _, _ := chain.open(t, "POST", upgrade); answer.StatusCode != http.StatusSwitchingProtocols {
			t.Errorf("after one has ended, the next is answered with %s", answer.Status)
		}
	})
}

// A stream that is idle stays; it ends with its session, even if its client reads nothing.
func TestAStreamEndsWithItsSession(t *testing.T) {
	t.Parallel()
	pours := func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}
	waits := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, c := range map[string]struct {
		stream, query, header string
		next                  http.HandlerFunc
		first                 int // bytes that the client reads
		reads                 bool
	}{
		"an idle command":            {protocol.Exec, "", upgrade, echoes, 12, true},
		"a log without a first line": {protocol.Log, "follow=true", "", waits, 0, true},
		"a log that is not read":     {protocol.Log, "follow=true", "", pours, 1 << 16, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var ended time.Time
				begun := time.Now()
				chain := newChain(t, c.stream, c.query, func(w http.ResponseWriter, r *http.Request) {
					c.next(w, r)
					ended = time.Now()
				})
				conn, _ := chain.proxy.dial(t.Context(), "", "")
				defer conn.Close()
				go fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: proxy\r\n%s\r\n", c.header)
				read := make(chan error, 1)
				if _, err := io.ReadFull(conn, make([]byte, c.first)); err != nil {
					t.Fatal(err)
				}
				if c.reads {
					go func() {
						_, err := io.Copy(io.Discard, conn)
						read <- err
					}()
				}
				if c.reads { // otherwise a flush waits for a lock, and virtual time for the flush
					time.Sleep(time.Hour)
				}
				if !ended.IsZero() {
					t.Fatalf("it ended after %v", ended.Sub(begun))
				}
				chain.end()
				synctest.Wait()
				if ended.IsZero() {
					t.Error("it goes on at the next server")
				}
				if !c.reads {
					return
				}
				select {
				case err := <-read:
					if err != nil && !errors.Is(err, io.ErrClosedPipe) {
						t.Error(err)
					}
				default:
					t.Error("it goes on at the client")
				}
			})
		})
	}
}
