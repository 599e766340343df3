package controller

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/controller/allocation"
	"strait.dev/strait/k8s/peering"
)

// The remote cluster announces something else every second for two minutes.
func TestT10_WhatARemoteClusterAnnouncesChangesAPeeringSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var woken atomic.Int64
		c := newPacing(func() { woken.Add(1) })
		s := working()
		own := s.network.ClusterID
		changes := 0
		announce := func(n int) *v1alpha1.Peering {
			next := s.peering.DeepCopy()
			next.Status.Announcement.Revision = int64(n)
			c.hold([]*v1alpha1.Peering{s.peering}, []*v1alpha1.Peering{next}, own, time.Now())
			return next
		}
		for n := range 120 {
			next := announce(n + 1)
			if next.Status.Announcement.Revision != s.peering.Status.Announcement.Revision {
				changes++
				if again := announce(n + 1); again.Status.Announcement.Revision != int64(n+1) {
					t.Fatal("an announcement that was not delayed is delayed by the next pass")
				}
			}
			s.peering = next
			time.Sleep(time.Second)
		}
		if most := pacedBurst + 12; changes > most || changes < most-1 {
			t.Errorf("%d changes in 2 minutes, want %d", changes, most)
		}
		if n := woken.Load(); n < 10 || n > 13 {
			t.Errorf("%d passes begin because of delayed announcements", n)
		}
		time.Sleep(pacedInterval)
		if last := announce(120); last.Status.Announcement.Revision != 120 {
			t.Error("the last announcement is not in effect")
		}
		other := s.peering.DeepCopy()
		other.UID = "other"
		next := other.DeepCopy()
		next.Status.Announcement.Revision = 7
		if c.hold([]*v1alpha1.Peering{other}, []*v1alpha1.Peering{next}, own, time.Now()); next.Status.Announcement.Revision != 7 {
			t.Error("another Peering is delayed too")
		}
		if len(c.byPeering) != 1 {
			t.Error("a Peering that is gone is remembered")
		}
	})
}

// What the spec no longer grants ends at once.
func TestAnAnnouncementThatIsNoLongerGrantedIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	c := newPacing(func() {})
	s := working()
	for n := range 10 {
		s.peering.Status.Announcement.Prefixes = []v1alpha1.CIDR{"10.9.0.0/16"} // not granted
		next := s.peering.DeepCopy()
		next.Status.Announcement.Revision, next.Status.Announcement.Prefixes = int64(n+1), []v1alpha1.CIDR{"10.1.0.0/16"}
		c.hold([]*v1alpha1.Peering{s.peering}, []*v1alpha1.Peering{next}, "a", noon)
		if next.Status.Announcement.Revision != int64(n+1) {
			t.Fatalf("announcement %d is delayed", n+1)
		}
	}
}

func TestLinksAndKeysAreInTheStatusAtOnceAndTextsSeldom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*v1alpha1.PeeringStatus, int)
		now  bool
	}{
		"a link":             {func(s *v1alpha1.PeeringStatus, n int) { s.Gateways[0].LinkUp = n%2 == 0 }, true},
		"a key":              {func(s *v1alpha1.PeeringStatus, n int) { s.Gateways[0].KeyGeneration = int32(n) }, true},
		"the receiver":       {func(s *v1alpha1.PeeringStatus, n int) { s.Services.Receiver = fmt.Sprint("b-", n) }, true},
		"the spec":           {func(s *v1alpha1.PeeringStatus, n int) { s.ObservedGeneration = int64(n) }, true},
		"a message":          {func(s *v1alpha1.PeeringStatus, n int) { s.Conditions[0].Message = fmt.Sprint(n) }, false},
		"a condition":        {func(s *v1alpha1.PeeringStatus, n int) { s.Conditions[0].Reason = fmt.Sprint(n) }, true},
		"a refusal":          {func(s *v1alpha1.PeeringStatus, n int) { s.Conditions[1].Reason = fmt.Sprint(n) }, false},
		"imported Services":  {func(s *v1alpha1.PeeringStatus, n int) { s.Services.Imported = int32(n) }, false},
		"the own revision":   {func(s *v1alpha1.PeeringStatus, n int) { s.Announced.Revision = int64(n) }, false},
		"the own revision 0": {func(s *v1alpha1.PeeringStatus, n int) { s.Announced = nil }, true},
	} {
		p := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
		was := &v1alpha1.PeeringStatus{
			Gateways: []v1alpha1.GatewayStatus{{Name: "b-0"}}, Services: &v1alpha1.PeeringServicesStatus{}, Announced: new(v1alpha1.Announcement),
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionTunnelUp}, {Type: v1alpha1.ConditionAnnounced}},
		}
		pace, written := newPacing(func() {}), 0
		for n := range 20 {
			is := was.DeepCopy()
			c.edit(is, n)
			if pace.status(p, was, is, noon.Add(time.Duration(n)*time.Second/2)) {
				written++
			}
		}
		if c.now && written < 10 || !c.now && written != pacedBurst {
			t.Errorf("%s: written %d times in 10 s", name, written)
		}
	}
}

// A remote cluster whose links come and go moves the receiver from gateway to gateway.
func TestT10_TheReceiverChangesSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var woken atomic.Int64
		c := newPacing(func() { woken.Add(1) })
		p := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
		was := &v1alpha1.PeeringStatus{Services: &v1alpha1.PeeringServicesStatus{}}
		changes := 0
		for n := range 120 {
			is := &v1alpha1.PeeringStatus{Services: &v1alpha1.PeeringServicesStatus{Receiver: fmt.Sprintf("b-%d", n%2)}}
			if c.receiver(p, was, is, time.Now()); is.Services.Receiver != was.Services.Receiver {
				changes++
			}
			was = is
			time.Sleep(time.Second)
		}
		if most := pacedBurst + 12; changes > most || changes < pacedBurst {
			t.Errorf("%d changes in 2 minutes, want at most %d", changes, most)
		}
		time.Sleep(pacedInterval)
		is := &v1alpha1.PeeringStatus{Services: &v1alpha1.PeeringServicesStatus{Receiver: "b-7"}}
		if c.receiver(p, was, is, time.Now()); is.Services.Receiver != "b-7" || woken.Load() == 0 {
			t.Error("the receiver is not the last one")
		}
	})
}

// The link of a gateway comes up every other second for two minutes. That it is down is never delayed.
func TestT10_LinksThatComeAndGoChangeAPeeringSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var woken atomic.Int64
		c := newPacing(func() { woken.Add(1) })
		s := working()
		pass := func(up bool) bool {
			s.report().Links[0].Up = up
			s.pods = gatewayPods{"b-0": {Pod: s.pods["b-0"].Pod, report: s.report()}}
			c.links([]*v1alpha1.Peering{s.peering}, s.pods, time.Now())
			return s.pass().Gateways[0].LinkUp
		}
		comes := 0
		for range 60 {
			if pass(true) {
				comes++
				if !pass(true) {
					t.Fatal("a link that was not delayed is delayed by the next pass")
				}
			} else if c := meta.FindStatusCondition(s.peering.Status.Conditions, v1alpha1.ConditionTunnelUp); c.Status != metav1.ConditionFalse || c.Reason != "Unstable" {
				t.Fatalf("TunnelUp of a delayed link: %+v", c)
			}
			time.Sleep(time.Second)
			if pass(false) {
				t.Fatal("a link is up that is down")
			}
			time.Sleep(time.Second)
		}
		if most := linkBurst + 12; comes > most || comes < most-1 {
			t.Errorf("came up %d times in 2 minutes, want %d", comes, most)
		}
		if woken.Load() == 0 {
			t.Error("no pass begins because of delayed links")
		}
		if time.Sleep(pacedInterval); !pass(true) {
			t.Error("a link is up, and the status says it is down")
		}
		c = newPacing(func() {})
		c.of(s.peering).links.Spend(time.Now(), pacedInterval, 2*linkBurst)
		if !pass(true) {
			t.Error("a controller that starts delays a link that is up")
		}
	})
}

// maxStatus is the length of a Peering's status that a remote cluster can cause, in bytes.
const maxStatus = 40 << 10

func TestT10_TheLargestAnnouncementMakesASmallStatus(t *testing.T) {
	t.Parallel()
	s := working()
	s.peering.Spec.AcceptPrefixes = []v1alpha1.AcceptedCIDR{"fd00::/8"}
	s.peering.Spec.Prefixes = nil
	a := s.peering.Status.Announcement
	a.Gateways = nil
	for i := range 16 {
		keys := make([]v1alpha1.PublicKey, 2)
		for k := range keys {
			keys[k] = v1alpha1.PublicKey(base64.StdEncoding.EncodeToString([]byte{0: byte(i + 1), 31: byte(k + 1)}))
		}
		g := v1alpha1.AnnouncedGateway{Name: fmt.Sprintf("%s-%d", strings.Repeat("g", 60), i), PublicKeys: keys}
		for e := range 8 {
			g.Endpoints = append(g.Endpoints, v1alpha1.Endpoint(fmt.Sprintf("%s%d.x:51840", strings.Repeat("h", 54), e)))
		}
		a.Gateways = append(a.Gateways, g)
	}
	a.Prefixes, s.inForce = nil, nil
	owner := v1alpha1.ClaimOwner{Kind: allocation.KindPeering, Name: "b"}
	for i := range 64 {
		for _, of := range []struct {
			list *[]v1alpha1.CIDR
			base string
		}{{&a.Prefixes, "fd00"}, {&a.ExternalPrefixes, "fd01"}} {
			cidr := fmt.Sprintf("%s:1111:2222:3333:4444:5555:%x:0/112", of.base, 0x1000+i)
			*of.list = append(*of.list, v1alpha1.CIDR(cidr))
			s.inForce = append(s.inForce, claims.Spec{Owner: owner, Pool: v1alpha1.PoolRemap, For: v1alpha1.CIDR(cidr), Prefix: v1alpha1.CIDR("fd1" + cidr[3:])})
		}
	}
	if err := peering.Refusal(s.peering, peering.HoldersOf("a", []*v1alpha1.Peering{s.peering}), a); err != nil {
		t.Fatal(err)
	}
	s.pass()
	text, err := json.Marshal(s.peering.Status)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.peering.Status.Prefixes) != 64 || len(s.peering.Status.ExternalPrefixes) != 64 {
		t.Errorf("%d and %d prefixes are in effect", len(s.peering.Status.Prefixes), len(s.peering.Status.ExternalPrefixes))
	}
	t.Logf("%d bytes", len(text))
	if len(text) > maxStatus {
		t.Errorf("the status has %d bytes, want at most %d", len(text), maxStatus)
	}
	a.Gateways[0].Endpoints[0] = v1alpha1.Endpoint(strings.Repeat("h", 253) + ":51840")
	if err := peering.Refusal(s.peering, peering.HoldersOf("a", []*v1alpha1.Peering{s.peering}), a); err == nil {
		t.Error("longer endpoints are accepted")
	}
}
