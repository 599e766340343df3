package link

import (
	"net/netip"
	"slices"
	"testing"
)

func TestAClaimSaysWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	var addresses, want Claim
	for i := range maxClaims + 1 {
		v4, v6 := netip.AddrFrom4([4]byte{10, 70, 0, byte(i)}), netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(i)})
		addresses = append(addresses, v6, v4)
		if i < maxClaims {
			want = slices.Insert(want, i, v4)
			want = append(want, v6)
		}
	}
	for _, c := range []struct{ give, want Claim }{{nil, nil}, {addresses[:1], addresses[:1]}, {addresses, want}} {
		b := c.give.Append(nil)
		got, ok := ParseClaim(append(b, "later fields"...))
		if !ok || !slices.Equal(got, c.want) || len(b) > MaxClaim {
			t.Errorf("%v, %t; want %v", got, ok, c.want)
		}
	}
}

func FuzzClaimsAreParsedSafely(f *testing.F) {
	f.Add(Claim{netip.MustParseAddr("10.70.0.1"), netip.MustParseAddr("fd00::1")}.Append(nil))
	f.Add([]byte("STRO\x01\xff\xff\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		addresses, ok := ParseClaim(b)
		if !ok {
			return
		}
		if again, ok := ParseClaim(addresses.Append(nil)); !ok || !slices.Equal(again, addresses) {
			t.Errorf("%v is %v when it is sent on", addresses, again)
		}
	})
}
