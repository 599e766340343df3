package config

import (
	"net/netip"
	"testing"
)

func TestSingleValuesAreCheckedAsInAConfiguration(t *testing.T) {
	t.Parallel()
	key := key(t, "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=")
	prefix := netip.MustParsePrefix
	for name, c := range map[string]struct {
		got  error
		want string
	}{
		"label":             {CheckLabel("b-0"), ""},
		"no label":          {CheckLabel(""), `"" is not an RFC 1123 label; ` + labelRemedy},
		"label with a dot":  {CheckLabel("b.0"), `"b.0" is not an RFC 1123 label; ` + labelRemedy},
		"prefix":            {CheckPrefix(prefix("10.0.0.0/16")), ""},
		"no prefix":         {CheckPrefix(netip.Prefix{}), "missing; write a prefix like 10.0.0.0/16 or fd00:10::/48"},
		"host bits":         {CheckPrefix(prefix("10.0.0.1/16")), "10.0.0.1/16 has host bits set; write 10.0.0.0/16"},
		"everything":        {CheckPrefix(prefix("0.0.0.0/0")), "0.0.0.0/0 is too wide; use /8 or longer"},
		"loopback":          {CheckPrefix(prefix("127.0.0.0/8")), "127.0.0.0/8 is loopback; choose ordinary unicast addresses"},
		"key":               {CheckPublicKey(key), ""},
		"no key":            {CheckPublicKey(Key{}), "missing; give the peer's public key as `wg pubkey` prints it"},
		"key of low order":  {CheckPublicKey(Key{1}), Key{1}.String() + " is a low-order point, which gives no shared secret; give the peer's public key as `wg pubkey` prints it"},
		"endpoint":          {CheckEndpoint("gw-b.example:51840"), ""},
		"no endpoint":       {CheckEndpoint(""), "is empty; leave it out"},
		"endpoint, no port": {CheckEndpoint("gw-b.example"), `"gw-b.example" is not an endpoint; write host:port like "gw-b.example:51840" or "[2001:db8::1]:51840", or leave it out to wait for the peer`},
	} {
		if text(c.got) != c.want {
			t.Errorf("%s: got  %s\nwant %s", name, text(c.got), c.want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
