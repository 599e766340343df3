package borrower

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

const (
	patience       = 10 * time.Second // of one request
	firstReconnect = time.Second
	lastReconnect  = 10 * time.Second
	maxAnswer      = 4 << 10 // bytes of an error
	// maxSaid is the maximum number of pods of which the lender speaks: those of the list, and as
	// many that ended since.
	maxSaid = 2 * protocol.MaxPods
	// maxSaidBytes is the maximum size of all that it says about them.
	maxSaidBytes = 24 << 20
)

// Lender is where and who the lender is, as the other cluster announced it.
type Lender struct {
	Address     netip.AddrPort // in this cluster
	Fingerprint string         // of its certificate
}

// link is the connection to the lender. It is safe for concurrent use.
type link struct {
	client *http.Client
	pods   *http.Transport // of the streams of pods, without a limit for an answer
	log    *slog.Logger
	term   int32 // of this run, set before run
	wake   func()
	fenced chan struct{} // closed when the lender has fenced former runs

	mu       sync.Mutex
	hello    *protocol.Hello                // nil: no stream yet
	said     map[string]*protocol.PodStatus // by UID
	bytes    int                            // of said
	needs    []string                       // hashes of contents
	synced   bool                           // said is complete
	received time.Time                      // when the last message was received
	session  context.Context                // of the status stream; nil: none
}

// newLink returns a link to the lender that where returns; dial nil means a plain TCP dialer.
func newLink(own tls.Certificate, where func() (Lender, error), dial func(context.Context, string, string) (net.Conn, error), log *slog.Logger, wake func()) *link {
	if dial == nil {
		dial = (&net.Dialer{Timeout: patience}).DialContext
	}
	pinned := func() string {
		l, err := where()
		if err != nil {
			return ""
		}
		return l.Fingerprint
	}
	transport := func(answers time.Duration) *http.Transport {
		return &http.Transport{
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				l, err := where()
				if err != nil {
					return nil, err
				}
				return dial(ctx, network, l.Address.String())
			},
			TLSClientConfig:        protocol.Client(own, pinned),
			TLSHandshakeTimeout:    patience,
			ResponseHeaderTimeout:  answers,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: protocol.MaxHeader,
			DisableCompression:     true,
		}
	}
	return &link{log: log, wake: wake, fenced: make(chan struct{}), said: make(map[string]*protocol.PodStatus), pods: transport(0), client: &http.Client{
		Transport:     transport(patience),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

type state struct {
	hello *protocol.Hello
	said  map[string]*protocol.PodStatus
	needs []string
	fresh bool // a message was received recently, and said is complete
}

// state returns what the link knows about the pods with these UIDs. It forgets others.
func (l *link) state(uids map[string]bool, now time.Time) state {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.synced {
		maps.DeleteFunc(l.said, func(uid string, of *protocol.PodStatus) bool {
			if !uids[uid] {
				l.bytes -= of.Size()
			}
			return !uids[uid]
		})
	}
	return state{hello: l.hello, said: maps.Clone(l.said), needs: l.needs, fresh: l.alive(now) && l.synced}
}

// alive reports whether a message was received recently. l.mu is held.
func (l *link) alive(now time.Time) bool {
	return l.hello != nil && now.Sub(l.received) < protocol.Silence
}

// latest returns the latest offer of a lender that is not silent; nil: it is.
func (l *link) latest(now time.Time) *protocol.Hello {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.alive(now) {
		return nil
	}
	return l.hello
}

func (l *link) run(ctx context.Context) {
	defer l.client.CloseIdleConnections()
	defer l.pods.CloseIdleConnections()
	pause := firstReconnect
	for ctx.Err() == nil {
		begun := time.Now()
		err := l.stream(ctx)
		l.mu.Lock()
		l.synced, l.session = false, nil
		l.mu.Unlock()
		if ctx.Err() == nil {
			l.log.Warn("the lender does not answer; reconnecting", "error", err)
		}
		if time.Since(begun) > protocol.Silence {
			pause = firstReconnect
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, lastReconnect)
	}
}

// stream reads one status stream until it ends, or is silent.
func (l *link) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(protocol.Silence, func() { cancel(errors.New("no message within " + protocol.Silence.String())) })
	defer silent.Stop()
	answer, err := l.request(ctx, http.MethodGet, fmt.Sprintf("%s?term=%d", protocol.StatusPath, l.term), nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return failure(answer)
	}
	in := protocol.NewReader(answer.Body)
	for first := true; ; first = false {
		m, err := in.Read()
		switch {
		case err != nil && context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case first && m.Hello == nil:
			return errors.New("the status stream does not begin with hello")
		case m.Hello != nil && m.Hello.Term != l.term:
			return fmt.Errorf("the status stream is that of term %d", m.Hello.Term)
		}
		silent.Reset(protocol.Silence)
		if err := l.take(m, first); err != nil {
			return err
		}
		if first {
			l.mu.Lock()
			l.session = ctx
			l.mu.Unlock()
		}
	}
}

func (l *link) current() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

func (l *link) take(m protocol.Message, first bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first {
		l.synced, l.said, l.bytes, l.needs = false, make(map[string]*protocol.PodStatus), 0, nil
	}
	l.received = time.Now()
	switch {
	case m.Hello != nil:
		if l.hello == nil {
			close(l.fenced)
		}
		l.hello = m.Hello
	case m.Pod != nil:
		if m.Pod.Status != nil {
			m.Pod.Status = translate.Report(m.Pod.Status) // the lender is not trusted to have done this
		}
		if before := l.said[m.Pod.UID]; before != nil {
			l.bytes -= before.Size()
		}
		l.said[m.Pod.UID] = m.Pod
		l.bytes += m.Pod.Size()
		if len(l.said) > maxSaid || l.bytes > maxSaidBytes {
			return fmt.Errorf("the lender says more than %d bytes, or speaks of more than %d pods", maxSaidBytes, maxSaid)
		}
	case m.Needs != nil:
		l.needs = m.Needs.Hashes
	case m.Synced:
		l.synced = true
	}
	l.wake()
	return nil
}

func (l *link) put(ctx context.Context, path string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := l.request(ctx, http.MethodPut, path, body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		return failure(answer)
	}
	return nil
}

func (l *link) request(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	// The host is only a header: the connection leads to the lender.
	r, err := http.NewRequestWithContext(ctx, method, "https://lender"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return l.client.Do(r)
}

func failure(answer *http.Response) error {
	var why struct {
		Error string `json:"error"`
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil || json.Unmarshal(text, &why) != nil || why.Error == "" {
		return fmt.Errorf("the lender answers with status %s", strconv.Itoa(answer.StatusCode))
	}
	return fmt.Errorf("the lender answers: %s", strings.ToValidUTF8(why.Error, ""))
}
