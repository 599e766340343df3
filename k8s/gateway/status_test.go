package gateway

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/tun"
)

func TestOnlyWhatMattersMakesTheReportBeWritten(t *testing.T) {
	rtt := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	base := func() v1alpha1.GatewayReportStatus {
		return v1alpha1.GatewayReportStatus{
			Peering: "b", PublicKey: "k", MTU: 1400, Announcement: &v1alpha1.Announcement{Revision: 1, ClusterID: "b", HeardAt: &metav1.MicroTime{Time: time.Unix(1000, 0)}},
			Links: []v1alpha1.LinkStatus{{
				Remote: "b-0", Up: true, RTT: rtt(time.Millisecond), LastHandshake: &metav1.Time{Time: time.Unix(1000, 0)}, Endpoint: "192.0.2.1:51840",
			}},
		}
	}
	for name, c := range map[string]struct {
		edit func(*v1alpha1.GatewayReportStatus)
		want reportChanges
	}{
		"nothing":              {func(*v1alpha1.GatewayReportStatus) {}, reportChanges{}},
		"the usual jitter":     {func(s *v1alpha1.GatewayReportStatus) { s.Links[0].RTT = rtt(1200 * time.Microsecond) }, reportChanges{}},
		"another round trip":   {func(s *v1alpha1.GatewayReportStatus) { s.Links[0].RTT = rtt(2 * time.Millisecond) }, reportChanges{later: true}},
		"the first":            {func(s *v1alpha1.GatewayReportStatus) { s.Links[0].RTT = nil }, reportChanges{later: true}},
		"another handshake":    {func(s *v1alpha1.GatewayReportStatus) { s.Links[0].LastHandshake.Time = time.Unix(1120, 0) }, reportChanges{later: true}},
		"another endpoint":     {func(s *v1alpha1.GatewayReportStatus) { s.Links[0].Endpoint = "192.0.2.2:51840" }, reportChanges{later: true}},
		"the link went down":   {func(s *v1alpha1.GatewayReportStatus) { s.Links[0].Up = false }, reportChanges{own: true}},
		"another link":         {func(s *v1alpha1.GatewayReportStatus) { s.Links[0].Remote = "b-1" }, reportChanges{own: true}},
		"a link less":          {func(s *v1alpha1.GatewayReportStatus) { s.Links = nil }, reportChanges{own: true}},
		"another MTU":          {func(s *v1alpha1.GatewayReportStatus) { s.MTU = 1300 }, reportChanges{own: true}},
		"another key":          {func(s *v1alpha1.GatewayReportStatus) { s.PublicKey = "l" }, reportChanges{own: true}},
		"nothing yet":          {func(s *v1alpha1.GatewayReportStatus) { *s = v1alpha1.GatewayReportStatus{} }, reportChanges{own: true, heard: true}},
		"the first handshake":  {func(s *v1alpha1.GatewayReportStatus) { s.Links[0].LastHandshake = nil }, reportChanges{own: true}},
		"another announcement": {func(s *v1alpha1.GatewayReportStatus) { s.Announcement.ClusterID = "c" }, reportChanges{heard: true}},
		"no announcement":      {func(s *v1alpha1.GatewayReportStatus) { s.Announcement = nil }, reportChanges{heard: true}},
		"a refusal":            {func(s *v1alpha1.GatewayReportStatus) { s.Refusal = "no" }, reportChanges{heard: true}},
	} {
		want := base()
		c.edit(&want)
		if got := compareReports(base(), want); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// The API server would refuse the whole report.
func TestALinkHasOnlyAnEndpointThatTheAPIAccepts(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]v1alpha1.Endpoint{
		"192.0.2.1:51840": "192.0.2.1:51840", "[::ffff:192.0.2.1]:51840": "192.0.2.1:51840", "[2001:db8::1]:51840": "[2001:db8::1]:51840",
		"[fe80::1%eth0]:51840": "", "240.0.0.1:51840": "", "192.0.2.1:0": "",
	} {
		if got := linkStatus(tun.LinkStatus{Endpoint: netip.MustParseAddrPort(from)}).Endpoint; got != want {
			t.Errorf("%s: %q, want %q", from, got, want)
		}
	}
	if got := linkStatus(tun.LinkStatus{}).Endpoint; got != "" {
		t.Errorf("without a packet: %q", got)
	}
}

// The links of a lost cluster are not lost in the same moment, so several reports are
// written at once.
func TestReportsAreWrittenAtOnceButNotAtAnyRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := new(reportWrites)
		written := 0
		for i := range 100 { // 20 s
			if write, _ := w.due(reportChanges{own: true}); write {
				w.done(nil)
				written++
			} else if i < reportBurst {
				t.Fatalf("report %d waits", i+1)
			}
			time.Sleep(200 * time.Millisecond)
		}
		if most := reportBurst + 20; written > most || written < most-1 {
			t.Errorf("%d reports in 20 s, want %d", written, most)
		}
	})
}

// The remote cluster announces something else every second, even while links go up and down.
func TestT10_WhatTheRemoteClusterSaysIsWrittenSeldom(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := new(reportWrites)
			written, links := 0, 0
			for range 120 {
				write, withoutHeard := w.due(reportChanges{own: own, heard: true})
				if write {
					w.done(nil)
					links++
				}
				if write && !withoutHeard {
					written++
				}
				time.Sleep(time.Second)
			}
			if most := heardBurst + 12; written > most || written < most-1 || own && links < 118 {
				t.Errorf("own changes %v: in 2 minutes %d reports with what it says, want %d; %d in all", own, written, most, links)
			}
		})
	}
}

func TestAReportWithoutWhatTheRemoteClusterSaysHasTheLastOfIt(t *testing.T) {
	have := v1alpha1.GatewayReportStatus{Announcement: &v1alpha1.Announcement{ClusterID: "b"}, Refused: "old", Refusal: "old", Skew: "old", RevisionInEffect: 1, Services: &v1alpha1.ServicesReport{From: "a-0"}}
	want := v1alpha1.GatewayReportStatus{MTU: 1400, Announcement: &v1alpha1.Announcement{ClusterID: "c"}, RevisionInEffect: 2, Services: &v1alpha1.ServicesReport{From: "a-1"}}
	keepHeard(&want, have)
	if c := compareReports(have, want); c != (reportChanges{own: true}) || want.Services.From != "a-0" {
		t.Errorf("%+v of %+v", c, want)
	}
	want.Services = nil // the gateway is no longer the receiver
	if keepHeard(&want, have); want.Services != nil {
		t.Error("the state of receiving stays in the report of a gateway that does not receive")
	}
}

func TestReportsThatCanWaitAndFailedOnesAreWrittenAtIntervals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := new(reportWrites)
		due := func(c reportChanges) bool { write, _ := w.due(c); return write }
		if !due(reportChanges{later: true}) {
			t.Fatal("the first report waits")
		}
		w.done(nil)
		time.Sleep(reportTimeout - time.Second)
		if due(reportChanges{later: true}) || !due(reportChanges{own: true}) {
			t.Error("within the interval, want only a report that matters now")
		}
		w.done(errors.New("the API server is away"))
		time.Sleep(reportTimeout - time.Second)
		if due(reportChanges{own: true, heard: true, later: true}) {
			t.Error("a failed report is repeated at once")
		}
		time.Sleep(time.Second)
		if !due(reportChanges{later: true}) {
			t.Error("a failed report is not repeated")
		}
	})
}

func TestTheSummaryIsOfTheFastestLinkThatIsUp(t *testing.T) {
	at := time.Unix(1000, 0)
	link := func(remote string, up bool, rtt, shaken time.Duration) v1alpha1.LinkStatus {
		return v1alpha1.LinkStatus{Remote: remote, Up: up, RTT: &metav1.Duration{Duration: rtt},
			LastHandshake: &metav1.Time{Time: at.Add(shaken)}, Endpoint: v1alpha1.Endpoint(remote + ":1")}
	}
	links := []v1alpha1.LinkStatus{link("x", true, 9*time.Millisecond, 1), link("y", true, 5*time.Millisecond, 2), link("z", false, time.Millisecond, 3)}
	s := summaryOf(links)
	if s.LinksUp != "2/3" || s.Endpoint != "y:1" || s.RTT.Duration != 5*time.Millisecond || !s.LastHandshake.Equal(&metav1.Time{Time: at.Add(3)}) {
		t.Errorf("%+v", s)
	}
	links[1].RTT = nil // not measured yet
	if s := summaryOf(links); s.Endpoint != "x:1" || s.RTT.Duration != 9*time.Millisecond {
		t.Errorf("%+v", s)
	}
	if s := summaryOf(nil); s != (v1alpha1.GatewaySummary{LinksUp: "0/0"}) {
		t.Errorf("%+v", s)
	}
}
