//go:build lab || nightly

package lab

import (
	"bytes"
	"fmt"
	"net"
	"testing"
)

// Protocols that the gateway does not implement cross with translated addresses and an
// unmodified payload. The test uses raw sockets, so that no kernel needs to implement them
// either.
func TestOtherProtocolsCross(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	for _, protocol := range []struct {
		name   string
		number int
	}{{"SCTP", 132}, {"ESP", 50}, {"experimental", 253}} {
		t.Run(protocol.name, func(t *testing.T) {
			forEachDirection(t, top, func(t *testing.T, w direction) {
				network := fmt.Sprintf("ip%d:%d", map[bool]int{true: 4, false: 6}[w.src.Is4()], protocol.number)
				payload := bytes.Repeat([]byte("protocol "+protocol.name+" "), 60)
				receiver := w.to.listenRaw(t, network, w.real.String())
				sender := w.from.listenRaw(t, network, w.src.String())
				if _, err := sender.WriteTo(payload, &net.IPAddr{IP: w.seen.AsSlice()}); err != nil {
					t.Fatal(err)
				}
				buffer := make([]byte, 2048)
				n, from, err := receiver.ReadFrom(buffer)
				if err != nil {
					t.Fatal(err)
				}
				if from.String() != w.srcSeen.String() {
					t.Errorf("it comes from %s, want %s", from, w.srcSeen)
				}
				if !bytes.Equal(buffer[:n], payload) {
					t.Errorf("%d bytes arrived as %d others", len(payload), n)
				}
			})
		})
	}
}
