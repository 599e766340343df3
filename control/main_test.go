package control

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"strait.dev/strait/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keyNumber is a public key without a known private key.
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
		Revision: 1, Cluster: "b", Gateway: "b-0",
		Prefixes:         prefixes("10.0.0.0/16", "fd00:10::/48"),
		ExternalPrefixes: prefixes("10.70.0.0/16"),
		Gateways: []Gateway{
			{"b-0", []config.Key{keyNumber(3), keyNumber(2)}, []string{"gw-b.example:51840", "[2001:db8::7]:51840"}},
			{"b-1", []config.Key{keyNumber(4)}, nil},
		},
		Lender:   &Lender{Address: netip.MustParseAddr("10.70.1.9"), Port: 6097, Fingerprint: strings.Repeat("1", 64)},
		Borrower: strings.Repeat("2", 64),
	}
}

// pipes is a listener in memory: both ends of its connections may be in a bubble of
// virtual time.
type pipes struct {
	arriving chan net.Conn
	closed   context.Context
	close    context.CancelFunc
}

// listen gives a listener in memory that is closed with the test.
func listen(t *testing.T) *pipes {
	l := &pipes{arriving: make(chan net.Conn)}
	l.closed, l.close = context.WithCancel(context.Background())
	t.Cleanup(l.close)
	return l
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.arriving:
		return c, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

func (l *pipes) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.arriving <- far:
		return near, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipes) Close() error   { l.close(); return nil }
func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// connect gives the near end of a connection that is closed with the test.
func connect(t *testing.T, l *pipes) net.Conn {
	t.Helper()
	c, err := l.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
