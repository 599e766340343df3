package control

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"

	"strait.dev/strait/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keyNumber is a public key that nobody has the private half of.
func keyNumber(n byte) config.Key { return config.Key{31: n & 0x7f, 0: 9} }

var theLink = Link{Name: "b-0", Gateway: "b-0", OwnKey: keyNumber(1), RemoteKey: keyNumber(2)}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, t := range texts {
		all = append(all, netip.MustParsePrefix(t))
	}
	return all
}

// announcement is one with everything in it.
func announcement() Announcement {
	return Announcement{
		Cluster: "b", Gateway: "b-0",
		Prefixes:         prefixes("10.0.0.0/16", "fd00:10::/48"),
		ExternalPrefixes: prefixes("10.70.0.0/16"),
		Gateways: []Gateway{
			{"b-0", []config.Key{keyNumber(3), keyNumber(2)}, []string{"gw-b.example:51840", "[2001:db8::7]:51840"}},
			{"b-1", []config.Key{keyNumber(4)}, nil},
		},
	}
}

// listen gives a listener that is closed with the test.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
