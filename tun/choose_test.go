package tun

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/link"
)

// linkUpFor makes a link that has been up for a time; 0 = it is down.
func linkUpFor(name, gateway string, since time.Duration, now time.Time) *Link {
	l := &Link{tun: new(Device), wg: wireguard{parent: slog.New(slog.DiscardHandler)}}
	l.wg.keep(LinkConfig{Name: name, Gateway: gateway, Allowed: []netip.Prefix{netip.MustParsePrefix("10.70.0.0/16")}})
	if since > 0 {
		l.state.prober.News, l.state.prober.UpSince = now, now.Add(-since)
	}
	return l
}

// A link that fails again before it has settled gets no flows, although it is not known to be down for
// 0.4 s.
func TestTrafficDoesNotMoveToALinkThatNoLongerAnswers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	preferred, present := linkUpFor("new", "b", settled, now), linkUpFor("old", "b", time.Hour, now)
	preferred.state.prober.News = now.Add(-time.Millisecond)
	if preferred.state.fit(now) != link.Up {
		t.Fatal("the link is down")
	}
	links := []*Link{preferred, present}
	if choose(links, present, now) != present || choose(links, present, now.Add(500*time.Millisecond)) != present {
		t.Error("traffic moves to a link that has answered for less than the time settled")
	}
	preferred.state.prober.News = now
	if choose(links, present, now) != preferred {
		t.Error("traffic does not move to a link that has settled")
	}
}

func TestTrafficStaysOrMovesToThePreferredLink(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	type link struct {
		gateway string
		up      time.Duration
	}
	const none = -1
	for name, c := range map[string]struct {
		links         []link
		present, want int
	}{
		"no links":                                 {nil, none, none},
		"nothing is up":                            {[]link{{"b", 0}, {"c", 0}}, none, 0},
		"nothing is up any more":                   {[]link{{"b", 0}, {"c", 0}}, 1, 1},
		"the first that is up":                     {[]link{{"b", 0}, {"c", time.Second}, {"d", time.Hour}}, none, 1},
		"the present one went down":                {[]link{{"b", 0}, {"c", time.Second}}, 0, 1},
		"another gateway before it is no reason":   {[]link{{"b", time.Hour}, {"c", time.Hour}}, 1, 1},
		"a new key that has settled":               {[]link{{"b", settled}, {"b", time.Hour}}, 1, 0},
		"a new key that has just come up":          {[]link{{"b", settled - 1}, {"b", time.Hour}}, 1, 1},
		"a new key that is not up":                 {[]link{{"b", 0}, {"b", time.Hour}}, 1, 1},
		"an old key behind is no reason":           {[]link{{"b", time.Hour}, {"b", time.Hour}}, 0, 0},
		"a new key between others":                 {[]link{{"c", time.Hour}, {"b", time.Hour}, {"d", time.Hour}, {"b", time.Hour}}, 3, 1},
		"the present one is gone from the list":    {[]link{{"b", 0}, {"b", time.Second}}, none, 1},
		"the new key went down: back to the other": {[]link{{"b", 0}, {"b", time.Hour}}, 0, 1},
	} {
		links := make([]*Link, len(c.links))
		for i, l := range c.links {
			links[i] = linkUpFor(name, l.gateway, l.up, now)
		}
		var present, want *Link
		if c.present != none {
			present = links[c.present]
		}
		if c.want != none {
			want = links[c.want]
		}
		if got := choose(links, present, now); got != want {
			t.Errorf("%s: chose another link than %d", name, c.want)
		}
	}
}

func TestTrafficLeavesALinkWhoseFarEndIsAboutToEnd(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	a, b := linkUpFor("a-0", "a-0", time.Hour, now), linkUpFor("a-1", "a-1", time.Second, now)
	links := []*Link{a, b}
	a.state.prober.Last.Kind = link.Leaving
	if choose(links, a, now) != b {
		t.Error("stays although another is up")
	}
	b.state.prober.Last.Kind = link.Leaving
	if choose(links, a, now) != a {
		t.Error("moves although the other is about to end, too")
	}
	b.state.prober.UpSince = time.Time{}
	if choose(links, a, now) != a || choose(links, b, now) != a {
		t.Error("one that is about to end is better than one that is down")
	}
	a.state.prober.Last.Kind = link.Hello // it has ended and is back
	b.state.prober.UpSince, b.state.prober.Last.Kind = now, link.Hello
	if choose(links, b, now) != b {
		t.Error("moves back without need")
	}
}

func TestALinkIsTheRemoteGatewayOfItsNameUnlessItSaysOtherwise(t *testing.T) {
	t.Parallel()
	l := linkUpFor("b-0", "", 0, time.Time{})
	if got := l.identity(); got.Name != "b-0" || got.Gateway != "b-0" {
		t.Errorf("%+v", got)
	}
}
