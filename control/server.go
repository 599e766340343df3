package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
)

// Serve serves the connections of a listener until that is closed, and then returns nil. identify returns the link of a
// connection; a connection without a link is closed. accept is called with each announcement, which is valid in form. It
// is called from several goroutines, but not after Serve has returned. Its error is a refusal: the text is sent to the
// far end for display, so it must not contain secrets. A *Stale also tells the far end which revision is in effect. exports
// are the Services that far ends may ask for; nil: none.
func Serve(l net.Listener, identify func(net.Conn) (Link, bool), accept func(Link, Announcement) error, exports *Exports, log *slog.Logger) error {
	var connections sync.WaitGroup
	log = LimitLog(log)
	admission := newAdmission(l, identify)
	s := &http.Server{
		Handler:           admission.paced(routes(accept, exports, log)),
		ReadHeaderTimeout: patience,
		ReadTimeout:       patience,
		WriteTimeout:      patience,
		IdleTimeout:       patience,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, linkOf{}, c.(*admitted).link)
		},
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				connections.Add(1)
			case http.StateClosed:
				connections.Done()
			}
		},
	}
	err := s.Serve(admission)
	s.Close()
	connections.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve the control channel: %w", err)
}

// linkOf is the context key of a request's Link.
type linkOf struct{}

func routes(accept func(Link, Announcement) error, exports *Exports, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /versions", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, versionsBody{spoken})
	})
	mux.HandleFunc("PUT /v1/announcement", func(w http.ResponseWriter, r *http.Request) {
		link := r.Context().Value(linkOf{}).(Link)
		a, err := readAnnouncement(w, r)
		if err != nil {
			log.With("link", link.Name).Warn("malformed announcement from the remote cluster", "error", plain(err.Error()))
			answer(w, http.StatusBadRequest, errorBody{plain(err.Error())})
			return
		}
		if err := accept(link, *a); err != nil {
			var stale *Stale
			body := refusalBody{Refused: plain(err.Error())}
			if errors.As(err, &stale) {
				body.Revision = stale.InEffect
			}
			answer(w, http.StatusConflict, body)
			return
		}
		answer(w, http.StatusOK, struct{}{})
	})
	if exports != nil {
		mux.HandleFunc("GET "+servicesPath, exports.serve)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, errorBody{"not served; GET /versions lists the versions"})
	})
	return mux
}

func readAnnouncement(w http.ResponseWriter, r *http.Request) (*Announcement, error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		var over *http.MaxBytesError
		if errors.As(err, &over) {
			return nil, tooLong(maxBody)
		}
		return nil, err
	}
	return decodeAnnouncement(b)
}

type (
	refusalBody struct {
		Refused  string `json:"refused"`
		Revision int64  `json:"revision,omitempty"` // that is in effect; only if it is later
	}
	errorBody struct {
		Error string `json:"error"`
	}
)

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// If the far end has gone, the error cannot be reported.
	_ = json.NewEncoder(w).Encode(body)
}
