package endpoint

import (
	"bytes"
	"net/netip"
	"testing"
)

func TestReplyHoldsTheClientAddressAndIsNotARequest(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"10.72.1.5:4321", "[fd00:72::5]:1"} {
		b := make([]byte, 100)
		putRequest(b, 77)
		if !putReply(b, netip.MustParseAddrPort(from)) {
			t.Fatal("a request was not recognised")
		}
		is, nonce, ok := parseReply(b)
		if !ok || is.String() != from || nonce != 77 {
			t.Errorf("parsed %v %d %v, want %s 77", is, nonce, ok, from)
		}
		if putReply(b, is) {
			t.Error("a reply is answered: two servers would loop forever")
		}
	}
}

func TestChangedByteIsFoundAtItsOffset(t *testing.T) {
	t.Parallel()
	b := make([]byte, 1000)
	for _, offset := range []int64{0, 1, 31, 32, 1 << 33} {
		marker.fill(b, offset)
		if at := marker.wrong(b, offset); at != -1 {
			t.Fatalf("offset %d: byte %d is wrong right after fill", offset, at)
		}
		for _, at := range []int{0, 15, 16, 31, 32, 999} {
			b[at] ^= 0x80
			if is := marker.wrong(b, offset); is != at {
				t.Errorf("offset %d: byte %d found instead of %d", offset, is, at)
			}
			b[at] ^= 0x80
		}
		if at := marker.wrong(b, offset+32); at == -1 {
			t.Error("a part of the stream is accepted as the next one")
		}
	}
}

func TestEvery64BytesHoldTheMarker(t *testing.T) {
	t.Parallel()
	b := make([]byte, 47+64)
	marker.fill(b, 5)
	for i := range 47 {
		if !bytes.Contains(b[i:i+64], marker[:]) {
			t.Errorf("the 64 bytes at %d do not", i)
		}
	}
}

func FuzzMessages(f *testing.F) {
	b := make([]byte, 80)
	putRequest(b, 5)
	f.Add(b)
	f.Add(echoRequest(false, 5, b))
	a := bytes.Clone(b)
	putReply(a, netip.MustParseAddrPort("10.0.0.1:7"))
	f.Add(a)
	f.Add(append([]byte{0x4f}, make([]byte, 30)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, raw := range []bool{true, false} {
			for _, v6 := range []bool{true, false} {
				if payload, _, ok := echoReply(v6, raw, b); ok && len(payload) < headLen {
					t.Errorf("a foreign payload of %d bytes is accepted", len(payload))
				}
			}
		}
		if _, _, ok := parseReply(b); ok && putReply(bytes.Clone(b), netip.AddrPort{}) {
			t.Error("a reply is also a request")
		}
	})
}
