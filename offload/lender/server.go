package lender

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"strait.dev/strait/offload/protocol"
)

const (
	// patience is the maximum time for one request, and for one write to the status stream.
	patience = 10 * time.Second
	// maxBodies is the maximum number of bodies of requests at once: that of a borrower, and those of
	// requests that it has given up.
	maxBodies = 4
)

// handler returns the handler of all requests. TLS has authenticated the borrower.
func (l *lender) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+protocol.VersionsPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string][]int{"versions": {protocol.Version}}) // an error ends the connection
	})
	for path, handler := range map[string]http.HandlerFunc{
		protocol.DesiredPath:              l.desired,
		protocol.TemplatesPath + "{hash}": l.keeps(protocol.MaxTemplate, l.template),
		protocol.ObjectsPath + "{hash}":   l.keeps(protocol.MaxContent, l.object),
	} {
		mux.HandleFunc("PUT "+path, l.Stats.requests(l.few(handler)))
	}
	mux.HandleFunc("GET "+protocol.StatusPath, l.Stats.streams(l.status))
	for _, stream := range protocol.Streams {
		mux.HandleFunc("GET "+protocol.PodsPath+"{uid}/"+stream, l.stream(stream))
		if stream != protocol.Log {
			mux.HandleFunc("POST "+protocol.PodsPath+"{uid}/"+stream, l.stream(stream))
		}
	}
	return mux
}

// few limits how many bodies of requests are in memory. A borrower sends one after the other.
func (l *lender) few(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case l.bodies <- struct{}{}:
			defer func() { <-l.bodies }()
			handler(w, r)
		default:
			answer(w, http.StatusServiceUnavailable, errors.New("too many requests at once; send one after the other"))
		}
	}
}

func (l *lender) desired(w http.ResponseWriter, r *http.Request) {
	text, ok := body(w, r, protocol.MaxList)
	if !ok {
		return
	}
	d, err := protocol.DecodeDesired(text)
	if err != nil {
		answer(w, http.StatusBadRequest, err)
		return
	}
	l.mu.Lock()
	err = l.state.Check(d)
	l.mu.Unlock()
	if err == nil {
		err = l.fence(r.Context(), d.Term)
	}
	if err == nil {
		l.mu.Lock()
		err = l.state.Accept(d)
		l.mu.Unlock()
	}
	if err != nil {
		refuse(w, err)
		return
	}
	l.Stats.listed(time.Now())
	l.loop.Wake()
	w.WriteHeader(http.StatusNoContent)
}

// fence stores the term of a borrower before it has an effect, and fences those of lower terms.
func (l *lender) fence(ctx context.Context, term int32) error {
	l.fencing.Lock()
	defer l.fencing.Unlock()
	l.mu.Lock()
	is := l.state.Term
	l.mu.Unlock()
	switch {
	case term < is:
		return fmt.Errorf("%w: a borrower with term %d has started", ErrFenced, is)
	case term > is:
		if err := l.spend(); err != nil {
			return err
		}
		if err := l.lease.Raise(ctx, term); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Fence(term)
	return nil
}

// errOverspent is the error of a request that would cost the API server too much.
var errOverspent = errors.New("the borrower asks too often; ask again later")

// spend counts a request to the API server that the borrower causes by asking.
func (l *lender) spend() error {
	if l.budget.Take(0, time.Now()) > 0 {
		return errOverspent
	}
	return nil
}

// keeps returns the handler of texts of at most limit bytes, with their hash in the path. keep takes one.
func (l *lender) keeps(limit int64, keep func(hash string, text []byte) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, ok := body(w, r, limit)
		if !ok {
			return
		}
		if err := keep(r.PathValue("hash"), text); err != nil {
			answer(w, http.StatusBadRequest, err)
			return
		}
		l.loop.Wake()
		w.WriteHeader(http.StatusNoContent)
	}
}

func (l *lender) template(hash string, text []byte) error {
	t, err := protocol.DecodeTemplate(text, hash)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Stock(hash, t)
}

func (l *lender) object(hash string, text []byte) error {
	c, err := protocol.DecodeContent(text, hash)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Put(hash, len(text), c, time.Now())
}

// status sends the status stream until the client ends it, or begins another.
func (l *lender) status(w http.ResponseWriter, r *http.Request) {
	if !l.board.ready() {
		answer(w, http.StatusServiceUnavailable, errors.New("the lender has not read its Peering yet"))
		return
	}
	term, err := strconv.ParseInt(r.FormValue("term"), 10, 32)
	if err != nil || term < 1 {
		answer(w, http.StatusBadRequest, errors.New("term: is missing or not a number; send that of the borrower"))
		return
	}
	if err := l.fence(r.Context(), int32(term)); err != nil {
		refuse(w, err)
		return
	}
	if err := l.spend(); err != nil {
		refuse(w, err)
		return
	}
	// As with a heartbeat: without its API server the lender does not know whether the snapshot
	// is true.
	if err := l.lease.Held(r.Context()); err != nil {
		answer(w, http.StatusServiceUnavailable, err)
		return
	}
	ctx, end := context.WithCancel(r.Context())
	defer end()
	ended := l.board.begin(ctx)
	control := http.NewResponseController(w)
	send := func(messages ...protocol.Message) bool {
		if err := control.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			return false
		}
		for _, m := range messages {
			if err := protocol.Write(w, m); err != nil {
				l.log.Warn("cannot send a status", "error", err)
				return false
			}
		}
		return control.Flush() == nil
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	messages, version, changed := l.board.after(0, int32(term))
	if !send(append(messages, protocol.Message{Synced: true})...) {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-ended:
			return
		case <-changed:
			messages, version, changed = l.board.after(version, int32(term))
			if !send(messages...) {
				return
			}
		}
	}
}

// body reads the body of a request of at most limit bytes.
func body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, bool) {
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, false
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		answer(w, http.StatusBadRequest, err)
		return nil, false
	}
	return text, true
}

// refuse answers that a borrower is fenced, or that its term cannot be stored now.
func refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, ErrFenced) {
		answer(w, http.StatusConflict, err)
	} else {
		answer(w, http.StatusServiceUnavailable, err)
	}
}

func answer(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": strings.ToValidUTF8(err.Error(), "")}) // the client sees its loss
}
