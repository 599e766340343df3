package link

import (
	"testing"
	"time"
)

func TestOnlyTheEndThatPrevailsLetsAnInitiationWait(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for _, prevails := range []bool{false, true} {
		c := Crossing{Prevails: prevails}
		if wait := c.Wait(now); wait != 0 {
			t.Errorf("prevails %v: an initiation waits %v although this end has sent none", prevails, wait)
		}
		c.Sent(now)
		want := time.Duration(0)
		if prevails {
			want = CrossingTime - 100*time.Millisecond
		}
		if wait := c.Wait(now.Add(100 * time.Millisecond)); wait != want {
			t.Errorf("prevails %v: an initiation waits %v, want %v", prevails, wait, want)
		}
	}
}

func TestAnInitiationIsObsoleteWhenTheOtherIsAnswered(t *testing.T) {
	t.Parallel()
	sent := time.Unix(1000, 0)
	arrives, answered := sent.Add(10*time.Millisecond), sent.Add(20*time.Millisecond)
	c := Crossing{Prevails: true}
	c.Sent(sent)
	if c.Wait(arrives) == 0 || c.Obsolete(arrives) {
		t.Error("it does not wait, or is obsolete without an answer")
	}
	c.Answered(answered)
	if !c.Obsolete(arrives) {
		t.Error("it is not obsolete although its end has answered")
	}
	if later := answered.Add(time.Millisecond); c.Wait(later) != 0 || c.Obsolete(later) {
		t.Error("one that was sent after the answer waits, or is obsolete")
	}
}

// The peer may be unable to answer: nothing of this end arrives there, as with an old address. Then its own
// initiations are the only ones that work.
func TestAnInitiationDoesNotWaitForAnAnswerThatIsLate(t *testing.T) {
	t.Parallel()
	sent := time.Unix(1000, 0)
	c := Crossing{Prevails: true}
	c.Sent(sent)
	if wait := c.Wait(sent.Add(CrossingTime)); wait != 0 {
		t.Errorf("it waits %v", wait)
	}
}
