package control

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// world is an Announcer that runs, the links that it sees, and the far end of them all.
type world struct {
	*Announcer
	mu       sync.Mutex
	up       []Link
	refuse   string         // what the far end has against announcements
	clusters []string       // of the announcements that arrived
	dials    map[string]int // by link name
	broken   bool           // nobody can connect
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dials: make(map[string]int)}
	l := listen(t)
	serveOn(t, l, always, func(_ Link, a Announcement) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.clusters = append(w.clusters, a.Cluster)
		if w.refuse != "" {
			return errors.New(w.refuse)
		}
		return nil
	}, patience)
	w.Announcer = NewAnnouncer(AnnouncerOptions{
		Up: func() []Link { w.mu.Lock(); defer w.mu.Unlock(); return slices.Clone(w.up) },
		Dial: func(ctx context.Context, link Link) (net.Conn, error) {
			w.mu.Lock()
			w.dials[link.Name]++
			broken := w.broken
			w.mu.Unlock()
			if broken {
				return nil, errors.New("nobody is there")
			}
			return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		},
		Jitter: func() float64 { return 0 },
		Log:    slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return w
}

// change changes the world and makes the Announcer look.
func (w *world) change(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	w.wake()
}

// result of the only link.
func (w *world) result() Result {
	if r := w.Results(); len(r) == 1 {
		return r[0]
	}
	return Result{}
}

func (w *world) announce(t *testing.T, cluster string) {
	t.Helper()
	a := announcement()
	a.Cluster = cluster
	if err := w.Set(a); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsSetReachesEveryLinkThatIsUp(t *testing.T) {
	w := newWorld(t)
	w.change(func() { w.up = []Link{theLink} })
	if r := w.result(); r.Current || !r.AcceptedAt.IsZero() || r.Link != theLink {
		t.Errorf("before there is an announcement: %+v", r)
	}
	w.announce(t, "b")
	eventually(t, "the first", func() bool { return w.result().Current })
	if r := w.result(); r.AcceptedAt.IsZero() || r.Refused != "" || r.Err != nil || !slices.Equal(r.Versions, []int{1}) {
		t.Errorf("%+v", r)
	}
	w.announce(t, "b") // the same again is no news
	w.announce(t, "c")
	eventually(t, "the changed one", func() bool { return w.result().Current })

	other := Link{Name: "b-1", OwnKey: keyNumber(1), RemoteKey: keyNumber(7)}
	w.change(func() { w.up = []Link{other, theLink} })
	eventually(t, "the new link", func() bool { return w.Results()[0].Current })
	renamed := theLink
	renamed.Name = "renamed"
	w.change(func() { w.up = []Link{renamed} })
	if r := w.result(); !r.Current || r.Link.Name != "renamed" {
		t.Errorf("after a link has another name: %+v", r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.clusters, " "); got != "b c c" {
		t.Errorf("announced %s, want b c c", got)
	}
	if w.dials["renamed"] != 0 {
		t.Error("announced again because of a name")
	}
}

func TestALinkThatCameUpAgainIsToldAgain(t *testing.T) {
	w := newWorld(t)
	w.announce(t, "b")
	for i := range 3 {
		w.change(func() { w.up = []Link{theLink} })
		eventually(t, "the announcement", func() bool { return w.result().Current })
		w.change(func() { w.up = nil })
		eventually(t, "the link gone", func() bool { w.Announcer.mu.Lock(); defer w.Announcer.mu.Unlock(); return len(w.peers) == 0 })
		w.mu.Lock()
		if len(w.clusters) != i+1 {
			t.Errorf("announced %d times, want %d", len(w.clusters), i+1)
		}
		w.mu.Unlock()
	}
}

func TestARefusalIsReportedWithItsReasonUntilItIsLifted(t *testing.T) {
	w := newWorld(t)
	w.change(func() { w.up, w.refuse = []Link{theLink}, "10.0.0.0/16 was not granted" })
	w.announce(t, "b")
	eventually(t, "the refusal", func() bool { return w.result().Refused == "10.0.0.0/16 was not granted" })
	if r := w.result(); r.Current || r.Err != nil {
		t.Errorf("%+v", r)
	}
	w.change(func() { w.refuse = "" })
	eventually(t, "acceptance", func() bool { return w.result().Current })
	if r := w.result(); r.Refused != "" {
		t.Errorf("%+v", r)
	}
}

func TestAnErrorIsReportedAndTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.change(func() { w.up, w.broken = []Link{theLink}, true })
	w.announce(t, "b")
	eventually(t, "the error", func() bool {
		err := w.result().Err
		return err != nil && strings.Contains(err.Error(), "nobody is there")
	})
	w.change(func() { w.broken = false })
	eventually(t, "acceptance", func() bool { return w.result().Current && w.result().Err == nil })
}

func TestInvalidAnnouncementsAreNotTaken(t *testing.T) {
	w := newWorld(t)
	w.change(func() { w.up = []Link{theLink} })
	w.announce(t, "b")
	eventually(t, "the first", func() bool { return w.result().Current })
	if err := w.Set(Announcement{Cluster: "b"}); err == nil || !strings.HasPrefix(err.Error(), "gateway: ") {
		t.Error(err)
	}
	if !w.result().Current {
		t.Error("the last good one does not count any more")
	}
}

// An exchange under way ends when its link goes or the Announcer does.
func TestNothingOutlivesItsLink(t *testing.T) {
	l := listen(t) // accepts by itself, and says nothing
	var mu sync.Mutex
	up := []Link{theLink}
	dialled := make(chan struct{}, 9)
	a := NewAnnouncer(AnnouncerOptions{
		Up: func() []Link { mu.Lock(); defer mu.Unlock(); return up },
		Dial: func(ctx context.Context, _ Link) (net.Conn, error) {
			dialled <- struct{}{}
			return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		},
		Jitter: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler),
	})
	if err := a.Set(announcement()); err != nil {
		t.Fatal(err)
	}
	var exchanges sync.WaitGroup
	a.step(t.Context(), time.Now(), &exchanges)
	<-dialled
	a.step(t.Context(), time.Now(), &exchanges) // one exchange at a time
	mu.Lock()
	up = nil
	mu.Unlock()
	a.step(t.Context(), time.Now(), &exchanges)
	start := time.Now()
	exchanges.Wait()
	if took := time.Since(start); took > patience/2 || len(dialled) != 0 {
		t.Errorf("the exchange went on for %v, with %d more", took, len(dialled))
	}
}
