package logbuffer

import (
	"fmt"
	"testing"
)

func TestFollowersAreToldOfWhatIsWritten(t *testing.T) {
	b := new(Buffer)
	text, more := b.Follow()
	if text != "" {
		t.Errorf("an empty log is %q", text)
	}
	fmt.Fprint(b, "one ")
	<-more
	text, more = b.Follow()
	select {
	case <-more:
		t.Error("more is announced before it is written")
	default:
	}
	fmt.Fprint(b, "two")
	<-more
	if text != "one " || b.String() != "one two" {
		t.Errorf("the log was %q and is %q", text, b)
	}
}
