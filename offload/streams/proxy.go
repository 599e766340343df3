package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/protocol"
)

const (
	maxAnswer = 4 << 10 // bytes of an error
	maxText   = 1 << 10 // bytes of it that are passed on
)

// bearer is the prefix of a WebSocket protocol that is a bearer token to API servers.
const bearer = "base64url.bearer."

// asked are the header fields of a request for an upgrade that are passed on, answered are those of
// its answer.
var (
	asked    = []string{"X-Stream-Protocol-Version", "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Protocol"}
	answered = []string{"Connection", "Upgrade", "X-Stream-Protocol-Version", "Sec-Websocket-Accept", "Sec-Websocket-Protocol"}
)

// Proxy passes streams on. It is safe for concurrent use. It follows no redirects, and passes on no
// credentials: those of its own are the transport's.
type Proxy struct {
	Options
	slots chan struct{}
}

// Options configure a Proxy. All are required.
type Options struct {
	Next      string            // name of the next server
	Transport http.RoundTripper // to it, over HTTP/1.1
	Wait      time.Duration     // for its answer, at most
	Answer    func(w http.ResponseWriter, code int, err error)
	Log       *slog.Logger
}

// New returns a proxy.
func New(o Options) *Proxy { return &Proxy{o, make(chan struct{}, protocol.MaxStreams)} }

type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

var (
	errEnded  = errors.New("the link to the other cluster is down")
	errWaited = errors.New("no answer in time") // the client reads another text
)

// Serve answers a request with a stream from a URL, whose query is allowed. It returns when the
// stream has ended, at the latest with the session.
func (p *Proxy) Serve(session context.Context, w http.ResponseWriter, r *http.Request, stream string, from *url.URL) {
	upgrade := stream != protocol.Log
	if err := check(r, upgrade); err != nil {
		p.Answer(w, http.StatusBadRequest, err)
		return
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		p.Answer(w, http.StatusTooManyRequests, fmt.Errorf("%d logs, commands and forwarded ports are open already; close one, and try again", cap(p.slots)))
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	control := http.NewResponseController(w)
	defer context.AfterFunc(session, func() {
		cancel(errEnded)
		now := time.Now() // a client that does not read would keep the stream
		_ = control.SetReadDeadline(now)
		_ = control.SetWriteDeadline(now)
	})()
	waited := time.AfterFunc(p.Wait, func() { cancel(errWaited) })
	defer waited.Stop()
	if from.Query().Has("follow") {
		waited.Stop() // a kubelet answers with the first line
	}
	proxy := httputil.ReverseProxy{
		Transport: p.Transport, FlushInterval: -1,
		ErrorLog: log.New(io.Discard, "", 0), // an end of a stream is no error
		Rewrite: func(both *httputil.ProxyRequest) {
			both.Out = (&http.Request{Method: r.Method, URL: from, Header: header(r, upgrade)}).WithContext(ctx)
		},
		ModifyResponse: func(answer *http.Response) error {
			waited.Reset(p.Wait) // an error has a body
			err := accept(answer, r, upgrade)
			waited.Stop()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			var refused *refusal
			switch cause := context.Cause(ctx); {
			case errors.Is(cause, errWaited):
				p.Answer(w, http.StatusGatewayTimeout, fmt.Errorf("%s does not answer within %v", p.Next, p.Wait))
			case cause != nil:
				p.Answer(w, http.StatusBadGateway, cause)
			case errors.As(err, &refused):
				p.Answer(w, refused.code, refused)
			default:
				p.Log.Warn("a stream of a pod cannot begin", "stream", stream, "error", err)
				p.Answer(w, http.StatusBadGateway, fmt.Errorf("%s does not answer as expected", p.Next))
			}
		},
	}
	proxy.ServeHTTP(w, r)
}

func check(r *http.Request, upgrade bool) error {
	kind := r.Header.Get("Upgrade")
	switch {
	case r.ContentLength != 0:
		return errors.New("the request has a body; send it without one")
	case upgrade && !strings.EqualFold(kind, "SPDY/3.1") && !strings.EqualFold(kind, "websocket"):
		return errors.New("the request asks for no upgrade of its connection; ask for SPDY/3.1 or websocket")
	}
	return nil
}

func header(r *http.Request, upgrade bool) http.Header {
	h := http.Header{"User-Agent": {""}} // none
	if !upgrade {
		return h
	}
	h.Set("Connection", "Upgrade")
	h.Set("Upgrade", r.Header.Get("Upgrade"))
	for _, name := range asked {
		for _, value := range r.Header[name] {
			protocols := strings.Split(value, ",")
			protocols = slices.DeleteFunc(protocols, func(p string) bool { return strings.HasPrefix(strings.TrimSpace(p), bearer) })
			if len(protocols) > 0 {
				h.Add(name, strings.Join(protocols, ","))
			}
		}
	}
	return h
}

// accept returns why an answer is no stream; otherwise it leaves of its header what a stream needs.
// Its caller closes the connection of one that is none, even if it is upgraded.
func accept(answer *http.Response, r *http.Request, upgrade bool) error {
	want, kept := http.StatusOK, http.Header{"Content-Type": {"text/plain"}}
	if upgrade {
		want, kept = http.StatusSwitchingProtocols, make(http.Header)
		for _, name := range answered {
			if values, ok := answer.Header[name]; ok {
				kept[name] = values
			}
		}
	}
	switch {
	case answer.StatusCode != want:
		return refused(answer)
	case upgrade && !strings.EqualFold(kept.Get("Upgrade"), r.Header.Get("Upgrade")):
		return &refusal{http.StatusBadGateway, "unexpected upgrade of the connection"}
	}
	answer.Header = kept
	return nil
}

// refused returns the error in an answer of an agent or an API server. A status that would mean
// something else to the client is replaced.
func refused(answer *http.Response) *refusal {
	code := answer.StatusCode
	is := &refusal{http.StatusBadGateway, fmt.Sprintf("unexpected answer with status %d", code)}
	if code < http.StatusBadRequest || code > 599 {
		return is
	}
	if code != http.StatusUnauthorized {
		is.code = code
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // what has arrived
	var said struct{ Error, Message string }
	if err := json.Unmarshal(text, &said); err != nil {
		said.Message = string(text)
	}
	if said.Error == "" {
		said.Error = said.Message
	}
	if said.Error != "" {
		is.text = client.Clip(strings.ToValidUTF8(strings.TrimSpace(said.Error), ""), maxText)
	}
	return is
}
