package control

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const servicesPath = "/v1/services"

const (
	// holdTime is how long an importer waits for a change before it gets the digest alone. It is shorter than
	// patience, which limits how long a connection may be silent.
	holdTime = 5 * time.Second
	// pagePatience is how long an importer may take to read a page: maxPage at 430 kbit/s.
	pagePatience = 30 * time.Second
)

// servicePosition is what an importer has: the query of its request.
type servicePosition struct {
	epoch              string // empty: nothing
	revision, snapshot int64  // of the last page
	digest             string // of all its records; empty: not known, because a snapshot is not complete
}

func (p servicePosition) query() string {
	q := make(url.Values)
	if p.epoch != "" {
		q.Set("epoch", p.epoch)
		q.Set("revision", strconv.FormatInt(p.revision, 10))
	}
	if p.snapshot != 0 {
		q.Set("snapshot", strconv.FormatInt(p.snapshot, 10))
	}
	if p.digest != "" {
		q.Set("digest", p.digest)
	}
	return q.Encode()
}

func parseServicePosition(q url.Values) (p servicePosition, err error) {
	p = servicePosition{epoch: q.Get("epoch"), digest: q.Get("digest")}
	for _, number := range []struct {
		name string
		into *int64
	}{{"revision", &p.revision}, {"snapshot", &p.snapshot}} {
		if text := q.Get(number.name); text != "" {
			if *number.into, err = strconv.ParseInt(text, 10, 64); err != nil || *number.into < 0 {
				return p, fmt.Errorf("%s: is not a number from 0; send the one of the last page", number.name)
			}
		}
	}
	return p, nil
}

// outgoingPage is a servicePage before it is sent. It shares the records with the set, so that a slow reader costs no
// copy of them.
type outgoingPage struct {
	epoch              string
	revision, snapshot int64
	more, stale        bool
	digest             digest
	changes            []*serviceChange
}

// serve answers GET /v1/services: at once if there is something new, otherwise after holdTime at the latest.
func (e *Exports) serve(w http.ResponseWriter, r *http.Request) {
	at, err := parseServicePosition(r.URL.Query())
	if err != nil {
		answer(w, http.StatusBadRequest, errorBody{plain(err.Error())})
		return
	}
	// The server's time limits are for short answers. Their only error is that a connection has none.
	limit := http.NewResponseController(w)
	_ = limit.SetReadDeadline(time.Now().Add(holdTime + pagePatience))
	hold := time.NewTimer(holdTime)
	defer hold.Stop()
	for held := false; ; {
		page, idle, changed, err := e.page(at)
		if errors.Is(err, errNotLoaded) {
			answer(w, http.StatusServiceUnavailable, errorBody{err.Error()})
			return
		}
		if !idle || held {
			_ = limit.SetWriteDeadline(time.Now().Add(pagePatience))
			page.send(w)
			return
		}
		select {
		case <-changed:
		case <-hold.C:
			held = true
		case <-r.Context().Done(): // the connection has ended
			return
		}
	}
}

// send sends the page.
func (p *outgoingPage) send(w http.ResponseWriter) {
	parts := p.encode()
	length := 0
	for _, part := range parts {
		length += len(part)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(length))
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return // the far end has gone, or is too slow
		}
	}
}

// encode returns the page as a servicePageV1, in parts: the records are not copied.
func (p *outgoingPage) encode() (parts [][]byte) {
	var head, removed bytes.Buffer
	fmt.Fprintf(&head, `{"epoch":%q,"revision":%d,"digest":"%v"`, p.epoch, p.revision, p.digest)
	if p.snapshot != 0 {
		fmt.Fprintf(&head, `,"snapshot":%d`, p.snapshot)
	}
	if p.more {
		_, _ = io.WriteString(&head, `,"more":true`)
	}
	if p.stale {
		_, _ = io.WriteString(&head, `,"stale":true`)
	}
	_, _ = io.WriteString(&head, `,"services":[`)
	parts = append(parts, head.Bytes())
	records := 0
	for _, c := range p.changes {
		if c.record == nil {
			if removed.Len() > 0 {
				removed.WriteByte(',')
			}
			fmt.Fprintf(&removed, "%q", c.key)
			continue
		}
		if records++; records > 1 {
			parts = append(parts, []byte{','})
		}
		parts = append(parts, c.record)
	}
	return append(parts, []byte(`],"removed":[`), removed.Bytes(), []byte("]}"))
}
