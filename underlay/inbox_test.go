package underlay

import (
	"bytes"
	"testing"
)

// TestALinkThatDoesNotKeepUpLosesOnlyItsOwn fills an inbox with datagrams; this one, with
// bytes.
func TestAnInboxIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	var in inbox
	large := bytes.Repeat([]byte{1}, 64<<10)
	taken := 0
	for in.put(large, nil) {
		if taken++; taken > inboxDatagrams {
			t.Fatal("no bounds")
		}
	}
	if want := inboxBytes / len(large); taken != want {
		t.Errorf("%d datagrams of %d bytes, want %d", taken, len(large), want)
	}
	if _, _, ok := in.take(); !ok || !in.put(large, nil) {
		t.Error("no room after taking")
	}
}
