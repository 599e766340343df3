package control

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"

	"strait.dev/strait/test/ports"
)

func TestAnOlderRevisionIsToldWhichOneIsInEffect(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", ports.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	serveOn(t, l, always, func(_ Link, a Announcement) error {
		got = append(got, a.Revision)
		if a.Revision < 57 {
			return &Stale{InEffect: 57}
		}
		return nil
	})
	for _, revision := range []int64{3, 58} {
		a := announcement()
		a.Revision = revision
		body, err := a.encode()
		if err != nil {
			t.Fatal(err)
		}
		dial := func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		}
		_, err = announce(t.Context(), dial, body)
		var stale *Stale
		if is := errors.As(err, &stale); is != (revision == 3) || is && stale.InEffect != 57 || !is && err != nil {
			t.Errorf("revision %d: %v", revision, err)
		}
		if refused, inEffect, other := reason(err); refused != "" || other != nil || (inEffect == 57) != (revision == 3) {
			t.Errorf("revision %d: %q, %d, %v", revision, refused, inEffect, other)
		}
	}
	if len(got) != 2 || got[0] != 3 || got[1] != 58 {
		t.Errorf("received %v", got)
	}
}

func TestRevisionsHaveBounds(t *testing.T) {
	t.Parallel()
	for revision, valid := range map[int64]bool{-1: false, 0: false, 1: true, MaxRevision: true, MaxRevision + 1: false} {
		a := announcement()
		a.Revision = revision
		if err := a.Validate(); (err == nil) != valid {
			t.Errorf("%d: %v", revision, err)
		}
	}
	for body, inEffect := range map[string]int64{
		`{"refused": "old", "revision": 7}`:                   7,
		`{"refused": "old", "revision": 4611686018427387905}`: 0,
		`{"refused": "old", "revision": -1}`:                  0,
	} {
		if _, got, _ := reason(verdict("/", http.StatusConflict, []byte(body))); got != inEffect {
			t.Errorf("%s: %d, want %d", body, got, inEffect)
		}
	}
}
