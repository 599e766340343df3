package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/allocation"
)

func TestEventsTellOfTransitionsAlone(t *testing.T) {
	peering := working().peering
	network := &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "n"}}
	one := func(kind string, status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: "m"}}
	}
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	for _, row := range []struct {
		was, is []metav1.Condition
		network bool
		want    string
	}{
		{one("TunnelUp", no, "Lost"), one("TunnelUp", yes, "LinkUp"), false, "Normal LinkUp TunnelUp is True: m"},
		{one("TunnelUp", yes, "LinkUp"), one("TunnelUp", no, "Lost"), false, "Warning Lost TunnelUp is False: m"},
		{one("PathMTU", yes, "FullSize"), one("PathMTU", unknown, "NoLink"), false, "Normal NoLink PathMTU is Unknown: m"},
		{one("CIDRConflict", no, "NoConflict"), one("CIDRConflict", yes, "NotMapped"), false, "Warning NotMapped CIDRConflict is True: m"},
		{nil, one("CIDRConflict", yes, "NotMapped"), false, "Warning NotMapped CIDRConflict is True: m"},
		{one("TunnelUp", no, "NoHandshake"), one("TunnelUp", no, "Lost"), false, ""},
		{nil, one("Announced", unknown, "NotAnnounced"), false, ""},
		{nil, one("Ready", no, "NoGatewayReady"), false, ""},
		{nil, one("Ready", no, "CannotAllocate"), true, "Warning CannotAllocate Ready is False: m"},
	} {
		c := &controller{events: make(chan *corev1.Event, 2)}
		if row.network {
			c.tell(noon, "ClusterNetwork", network, row.was, row.is, nil)
		} else {
			c.tell(noon, allocation.KindPeering, peering, row.was, row.is, nil)
		}
		got := ""
		if len(c.events) > 0 {
			e := <-c.events
			got = strings.Join([]string{e.Type, e.Reason, e.Message}, " ")
		}
		if got != row.want || len(c.events) > 0 {
			t.Errorf("%+v: %q, want %q", row, got, row.want)
		}
	}
}

func TestATransitionHasOneEventAndTheNextAnother(t *testing.T) {
	p := working().peering
	c := metav1.Condition{Type: "TunnelUp", Status: metav1.ConditionFalse, Reason: "Lost", Message: strings.Repeat("ü", 5000), LastTransitionTime: metav1.Time{Time: noon}}
	first, again := eventOf(noon, allocation.KindPeering, p, c), eventOf(noon.Add(1), allocation.KindPeering, p, c)
	c.LastTransitionTime = metav1.Time{Time: noon.Add(2e9)}
	if next := eventOf(noon, allocation.KindPeering, p, c); first.Name != again.Name || first.Name == next.Name {
		t.Errorf("%s, %s, %s", first.Name, again.Name, next.Name)
	}
	if len(first.Message) > maxEventMessage || strings.ToValidUTF8(first.Message, "") != first.Message {
		t.Errorf("a message of %d bytes", len(first.Message))
	}
}

func TestTooManyEventsAreDroppedAndBlockNothing(t *testing.T) {
	c := &controller{events: make(chan *corev1.Event, 1)}
	for range 3 {
		c.tell(noon, allocation.KindPeering, working().peering, nil, []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}, nil)
	}
}

// A remote cluster whose links come and go every second.
func TestT10_APeeringThatChangesAllTheTimeHasFewEvents(t *testing.T) {
	c := &controller{events: make(chan *corev1.Event, 10_000), pacing: newPacing(func() {})}
	p := working().peering
	was := []metav1.Condition{{Type: "TunnelUp", Status: metav1.ConditionTrue}, {Type: "Ready", Status: metav1.ConditionTrue}}
	const minutes = 60
	for second := range minutes * 60 {
		is := slices.Clone(was)
		for i := range is {
			is[i].Status = map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[second%2 == 1]
		}
		c.tell(noon.Add(time.Duration(second)*time.Second), allocation.KindPeering, p, was, is, &c.pacing.of(p).events)
		was = is
	}
	if n := len(c.events); n < eventBurst || n > eventBurst+minutes {
		t.Errorf("%d events in %d minutes", n, minutes)
	}
}
