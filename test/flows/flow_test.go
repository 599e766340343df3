package flows

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestAnOutageLastsFromTheFirstUndeliveredMessageToTheNextDelivery(t *testing.T) {
	t.Parallel()
	f := &Flow{}
	for i := range 100 { // every 10 ms; 20 to 39 are lost, the others need 1 ms
		at := time.Duration(i) * 10 * ms
		n := f.send(at)
		if i < 20 || i >= 40 {
			f.deliver(n, at+ms)
		}
	}
	if o := f.outcome(990*ms + ms); o != (Outcome{Outage: 201 * ms, Lost: 20}) {
		t.Errorf("%+v", o)
	}
	f.begin()
	if o := f.outcome(990*ms + ms); o != (Outcome{}) {
		t.Errorf("a new measurement begins with %+v", o)
	}
}

func TestMessagesThatArriveLateAreAnOutageWithoutLoss(t *testing.T) {
	t.Parallel()
	f := &Flow{}
	for i := range 10 { // a TCP connection waits for a retransmission and delivers all at once
		f.send(time.Duration(i) * 10 * ms)
	}
	if !f.down(200*ms, 150*ms) {
		t.Error("a flow without a delivery is up")
	}
	for i := range 10 {
		f.deliver(uint64(i), 200*ms)
	}
	if o := f.outcome(200 * ms); o != (Outcome{Outage: 200 * ms}) {
		t.Errorf("%+v", o)
	}
	if f.down(time.Hour, 0) {
		t.Error("a flow with every message delivered is down")
	}
}

func TestAnOutageThatLastsCountsUntilNow(t *testing.T) {
	t.Parallel()
	f := &Flow{}
	f.deliver(f.send(0), 0)
	f.begin()
	for i := 1; i <= 3*remembered; i++ {
		f.send(time.Duration(i) * ms)
	}
	// Only the sending times of the last messages are known.
	if o, want := f.outcome(3*remembered*ms), (remembered-1)*ms; o.Outage != want || o.Lost != 0 {
		t.Errorf("%+v, want an outage of %v", o, want)
	}
}

func TestAReorderedMessageIsNeitherLostNorAnOutage(t *testing.T) {
	t.Parallel()
	f := &Flow{}
	a, b := f.send(0), f.send(ms)
	f.deliver(b, 2*ms)
	f.deliver(a, 3*ms)
	if o := f.outcome(3 * ms); o != (Outcome{Outage: 2 * ms}) {
		t.Errorf("%+v", o)
	}
}

func TestMessagesAreFoundInsideOfAnyEncapsulation(t *testing.T) {
	t.Parallel()
	message := make([]byte, size)
	packet := bytes.Repeat([]byte{0xf1}, 91) // headers
	for _, id := range []int{7, 300, 0} {
		makeMessage(message, id, 1<<40)
		packet = append(packet, message...)
	}
	if id, n, ok := parseMessage(message); !ok || id != 0 || n != 1<<40 {
		t.Errorf("parsed as %d, %d, %v", id, n, ok)
	}
	var found []int
	eachMessage(append(packet, marker...), func(id int) { found = append(found, id) })
	if !slices.Equal(found, []int{7, 300, 0}) {
		t.Errorf("found %v", found)
	}
}
