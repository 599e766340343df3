package underlay

import (
	"bytes"
	"testing"
)

// TestALinkThatDoesNotKeepUpLosesOnlyItsOwn fills an messageQueue with datagrams; this one, with
// bytes.
func TestAnInboxIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	var in messageQueue
	large := bytes.Repeat([]byte{1}, 64<<10)
	taken := 0
	for in.put(large, nil) {
		if taken++; taken > maxQueuedMessages {
			t.Fatal("no bounds")
		}
	}
	if want := maxQueuedBytes / len(large); taken != want {
		t.Errorf("%d datagrams of %d bytes, want %d", taken, len(large), want)
	}
	if _, _, ok := in.take(); !ok || !in.put(large, nil) {
		t.Error("no room after taking")
	}
}
