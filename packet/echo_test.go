package packet

import "testing"

func TestEchoRequestsAreDistinguishedFromOtherQueries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version, proto, kind uint8
		want                 bool
	}{
		{4, ProtoICMP, 8, true}, {4, ProtoICMP, 0, false}, {4, ProtoICMP, 128, false}, {4, ProtoUDP, 8, false},
		{6, ProtoICMPv6, 128, true}, {6, ProtoICMPv6, 129, false}, {6, ProtoICMPv6, 8, false}, {6, ProtoICMP, 8, false},
	} {
		b := []byte{c.kind, 0, 0, 0, 0, 0, 0, 0}
		if got := IsEchoRequest(b, &IP{Version: c.version, Proto: c.proto, Len: 8}); got != c.want {
			t.Errorf("IPv%d, protocol %d, type %d: %t", c.version, c.proto, c.kind, got)
		}
	}
	if IsEchoRequest(nil, &IP{Version: 4, Proto: ProtoICMP}) {
		t.Error("nothing is no request")
	}
}
