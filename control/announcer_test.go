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
	"testing/synctest"
	"time"
)

// world is an Announcer that runs in virtual time, the links that it sees, and the far
// end of them all.
type world struct {
	*Announcer
	mu       sync.Mutex
	up       []Link
	refuse   string         // what the far end has against announcements
	clusters []string       // of the announcements that arrived
	dials    map[string]int // by link name
	broken   bool           // connections fail
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
	})
	w.Announcer = NewAnnouncer(AnnouncerOptions{
		Up: func() []Link { w.mu.Lock(); defer w.mu.Unlock(); return slices.Clone(w.up) },
		Dial: func(ctx context.Context, link Link) (net.Conn, error) {
			w.mu.Lock()
			w.dials[link.Name]++
			broken := w.broken
			w.mu.Unlock()
			if broken {
				return nil, errors.New("no host")
			}
			return l.dial(ctx)
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

// change changes the world, makes the Announcer look, and waits for what it does at once.
func (w *world) change(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	w.wake()
	synctest.Wait()
}

// result of the only link.
func (w *world) result() Result {
	if r := w.Results(); len(r) == 1 {
		return r[0]
	}
	return Result{}
}

// announce sets an announcement and waits for what the Announcer does at once.
func (w *world) announce(t *testing.T, cluster string) {
	t.Helper()
	a := announcement()
	a.Cluster = cluster
	if err := w.Set(a); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// announced checks of which clusters announcements have arrived.
func (w *world) announced(t *testing.T, want string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.clusters, " "); got != want {
		t.Errorf("announced %s, want %s", got, want)
	}
}

func TestAnAnnouncementReachesEveryLinkThatIsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.change(func() { w.up = []Link{theLink} })
		if r := w.result(); r.Current || !r.AcceptedAt.IsZero() || r.Link != theLink {
			t.Errorf("before there is an announcement: %+v", r)
		}
		w.announce(t, "b")
		if r := w.result(); !r.Current || !r.AcceptedAt.Equal(time.Now()) || r.Refused != "" || r.Err != nil || !slices.Equal(r.Versions, []int{1}) {
			t.Errorf("%+v", r)
		}
		w.announce(t, "b") // the same again is no news
		w.announce(t, "c")
		if r := w.result(); !r.Current {
			t.Errorf("after a change: %+v", r)
		}

		other := Link{Name: "b-1", OwnKey: keyNumber(1), RemoteKey: keyNumber(7)}
		w.change(func() { w.up = []Link{other, theLink} })
		if r := w.Results()[0]; !r.Current {
			t.Errorf("the new link: %+v", r)
		}
		renamed := theLink
		renamed.Name = "renamed"
		w.change(func() { w.up = []Link{renamed} })
		if r := w.result(); !r.Current || r.Link.Name != "renamed" {
			t.Errorf("after a link has another name: %+v", r)
		}
		w.announced(t, "b c c")
		if w.dials["renamed"] != 0 {
			t.Error("announced again because of a name")
		}
		time.Sleep(refresh - look)
		w.announced(t, "b c c")
		time.Sleep(2 * look)
		w.announced(t, "b c c c")
	})
}

func TestALinkThatComesUpAgainGetsTheAnnouncementAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.announce(t, "b")
		for _, want := range []string{"b", "b b", "b b b"} {
			w.change(func() { w.up = []Link{theLink} })
			if r := w.result(); !r.Current {
				t.Errorf("%+v", r)
			}
			w.change(func() { w.up = nil })
			if len(w.peers) != 0 {
				t.Errorf("%d peers without a link", len(w.peers))
			}
			w.announced(t, want)
		}
	})
}

func TestARefusalIsReportedWithItsReasonUntilItIsLifted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.change(func() { w.up, w.refuse = []Link{theLink}, "10.0.0.0/16 was not granted" })
		w.announce(t, "b")
		if r := w.result(); r.Refused != "10.0.0.0/16 was not granted" || r.Current || r.Err != nil {
			t.Errorf("%+v", r)
		}
		w.change(func() { w.refuse = "" })
		if r := w.result(); r.Refused == "" {
			t.Errorf("it was announced again before %v", firstRetry)
		}
		time.Sleep(firstRetry + look)
		if r := w.result(); r.Refused != "" || !r.Current {
			t.Errorf("%+v", r)
		}
	})
}

func TestAnErrorIsReportedAndTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.change(func() { w.up, w.broken = []Link{theLink}, true })
		w.announce(t, "b")
		if err := w.result().Err; err == nil || !strings.Contains(err.Error(), "no host") {
			t.Error(err)
		}
		w.change(func() { w.broken = false })
		time.Sleep(firstRetry + look)
		if r := w.result(); !r.Current || r.Err != nil {
			t.Errorf("%+v", r)
		}
	})
}

func TestInvalidAnnouncementsAreNotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.change(func() { w.up = []Link{theLink} })
		w.announce(t, "b")
		if err := w.Set(Announcement{Cluster: "b"}); err == nil || !strings.HasPrefix(err.Error(), "gateway: ") {
			t.Error(err)
		}
		if !w.result().Current {
			t.Error("the last good one does not count any more")
		}
	})
}

// An exchange under way ends when its link goes or the Announcer does.
func TestNothingOutlivesItsLink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := says(t) // accepts, and says nothing
		up, dials := []Link{theLink}, 0
		a := NewAnnouncer(AnnouncerOptions{
			Up: func() []Link { return up },
			Dial: func(ctx context.Context, _ Link) (net.Conn, error) {
				dials++
				return l.dial(ctx)
			},
			Jitter: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler),
		})
		if err := a.Set(announcement()); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		var exchanges sync.WaitGroup
		a.step(t.Context(), time.Now(), &exchanges)
		synctest.Wait()
		a.step(t.Context(), time.Now(), &exchanges) // one exchange at a time
		synctest.Wait()
		up = nil
		a.step(t.Context(), time.Now(), &exchanges)
		exchanges.Wait()
		if took := time.Since(begun); took != 0 || dials != 1 {
			t.Errorf("the exchange went on for %v, after %d dials", took, dials)
		}
	})
}
