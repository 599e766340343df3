package ipam

import (
	"fmt"
	"testing"
	"time"
)

func TestAPortBelongsToOneKeyWhileItHasIt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := NewPorts(20000, 20009, time.Minute)
	owners := make(map[uint16]string)
	for i := range 10 {
		key := fmt.Sprint("service ", i)
		port, ok := p.Assign(key, now)
		if !ok || port < 20000 || port > 20009 || owners[port] != "" {
			t.Fatalf("%s: %d, %v, which has %q", key, port, ok, owners[port])
		}
		owners[port] = key
		if again, _ := p.Assign(key, now); again != port {
			t.Errorf("%s: %d, then %d", key, port, again)
		}
	}
	if port, ok := p.Assign("one more", now); ok {
		t.Errorf("%d although all are taken", port)
	}
}

func TestAReleasedPortRestsBeforeAnotherKeyGetsIt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	p := NewPorts(65535, 65535, time.Minute)
	port, _ := p.Assign("a", now)
	p.Release("a", now)
	p.Release("a", now.Add(time.Hour)) // has none
	if _, ok := p.Assign("b", now.Add(59*time.Second)); ok {
		t.Error("another key got it at once")
	}
	if again, ok := p.Assign("a", now.Add(time.Second)); !ok || again != port {
		t.Errorf("the key that comes back got %d, %v", again, ok)
	}
	p.Release("a", now)
	if other, ok := p.Assign("b", now.Add(time.Minute)); !ok || other != port {
		t.Errorf("%d, %v after it rested", other, ok)
	}
}

// A plan is restored from what is recorded of it, whatever the order.
func TestPortsSurviveARestart(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	before := NewPorts(20000, 29999, time.Minute)
	recorded := make(map[string]uint16)
	for i := range 2000 {
		key := fmt.Sprint("service ", i)
		recorded[key], _ = before.Assign(key, now)
	}
	after := NewPorts(20000, 29999, time.Minute)
	for key, port := range recorded {
		if !after.Take(key, port) {
			t.Fatalf("%s could not take %d again", key, port)
		}
	}
	for key, port := range recorded {
		if got, _ := after.Assign(key, now); got != port {
			t.Errorf("%s has %d, had %d", key, got, port)
		}
		if after.Take("another", port) || after.Take(key, port+1) || !after.Take(key, port) {
			t.Errorf("%d of %s can be taken twice", port, key)
		}
	}
	for _, outside := range []uint16{0, 19999, 30000, 65535} {
		if after.Take("outside", outside) {
			t.Errorf("%d is outside of the range", outside)
		}
	}
}
