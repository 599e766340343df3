//go:build lab || nightly

package forwarding

import (
	"bytes"
	"fmt"
	"net"
	"testing"

	"strait.dev/strait/test/lab"
)

// Protocols that the gateway does not implement cross with translated addresses and an
// unmodified payload. The test uses raw sockets, so that no kernel needs to implement them
// either.
func TestOtherProtocolsCross(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	for _, protocol := range []struct {
		name   string
		number int
	}{{"SCTP", 132}, {"ESP", 50}, {"experimental", 253}} {
		t.Run(protocol.name, func(t *testing.T) {
			lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
				network := fmt.Sprintf("ip%d:%d", map[bool]int{true: 4, false: 6}[w.Src.Is4()], protocol.number)
				payload := bytes.Repeat([]byte("protocol "+protocol.name+" "), 60)
				receiver := w.To.ListenRaw(t, network, w.Real.String())
				sender := w.From.ListenRaw(t, network, w.Src.String())
				if _, err := sender.WriteTo(payload, &net.IPAddr{IP: w.Seen.AsSlice()}); err != nil {
					t.Fatal(err)
				}
				buffer := make([]byte, 2048)
				n, from, err := receiver.ReadFrom(buffer)
				if err != nil {
					t.Fatal(err)
				}
				if from.String() != w.SrcSeen.String() {
					t.Errorf("it comes from %s, want %s", from, w.SrcSeen)
				}
				if !bytes.Equal(buffer[:n], payload) {
					t.Errorf("%d bytes arrived as %d others", len(payload), n)
				}
			})
		})
	}
}
