package nat_test

import (
	"net/netip"
	"testing"

	"strait.dev/strait/nat"
)

func TestMapKeepsHostBits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to, in, out string }{
		{"10.71.0.0/16", "10.0.0.0/16", "10.71.2.9", "10.0.2.9"},
		{"10.0.0.0/16", "10.72.0.0/16", "10.0.1.5", "10.72.1.5"},
		{"10.0.0.0/8", "11.0.0.0/8", "10.255.255.255", "11.255.255.255"},
		{"10.80.0.11/32", "10.70.0.11/32", "10.80.0.11", "10.70.0.11"},
		{"10.0.0.0/13", "172.16.0.0/13", "10.7.255.254", "172.23.255.254"},
		{"192.0.2.128/25", "198.51.100.0/25", "192.0.2.129", "198.51.100.1"},
		{"fd00:10::/48", "fd00:72::/48", "fd00:10::1:5", "fd00:72::1:5"},
		{"fd00:10::/64", "2001:db8:7::/64", "fd00:10::ffff:1:2:3", "2001:db8:7:0:ffff:1:2:3"},
		{"fd00::8000/113", "fd00:1::/113", "fd00::ffff", "fd00:1::7fff"},
		{"fd00:80::11/128", "fd00:70::11/128", "fd00:80::11", "fd00:70::11"},
	} {
		m := mapOf(t, c.from, c.to)
		if got := m.Translate(netip.MustParseAddr(c.in)); got != netip.MustParseAddr(c.out) {
			t.Errorf("%v: %s became %v, want %s", m, c.in, got, c.out)
		}
		if got := m.Reverse().Translate(netip.MustParseAddr(c.out)); got != netip.MustParseAddr(c.in) {
			t.Errorf("%v reversed: %s became %v, want %s", m, c.out, got, c.in)
		}
	}
}

func TestRFC6296_MapIsABijectionForEveryPrefixLength(t *testing.T) {
	t.Parallel()
	r := random()
	for _, is4 := range []bool{true, false} {
		longest := randomAddr(r, is4).BitLen()
		for bits := range longest + 1 {
			for range 8 {
				m := mapFor(t, randomAddr(r, is4), randomAddr(r, is4), bits)
				back := m.Reverse()
				for range 8 {
					host := slowTranslate(back, randomAddr(r, is4)) // some address of m.From
					there := m.Translate(host)
					if want := slowTranslate(m, host); there != want {
						t.Fatalf("%v: %v became %v, want %v", m, host, there, want)
					}
					if !m.To().Contains(there) {
						t.Fatalf("%v: %v became %v, which is outside", m, host, there)
					}
					if again := back.Translate(there); again != host {
						t.Fatalf("%v: %v became %v and then %v", m, host, there, again)
					}
				}
			}
		}
	}
}

func TestMapGivesEveryHostOneAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	m := mapOf(t, "10.0.16.0/20", "172.16.240.0/20")
	taken := make(map[netip.Addr]netip.Addr)
	for a := m.From().Addr(); m.From().Contains(a); a = a.Next() {
		there := m.Translate(a)
		if other, ok := taken[there]; ok || !m.To().Contains(there) {
			t.Fatalf("%v became %v, as did %v", a, there, other)
		}
		taken[there] = a
	}
	if len(taken) != 1<<12 {
		t.Fatalf("%d addresses, want %d", len(taken), 1<<12)
	}
}

func TestReverseOfReverseIsTheMapItself(t *testing.T) {
	t.Parallel()
	m := mapOf(t, "10.71.0.0/16", "10.0.0.0/16")
	if back := m.Reverse(); back.From() != m.To() || back.To() != m.From() || *back.Reverse() != *m {
		t.Errorf("%v reversed is %v, and again %v", m, back, back.Reverse())
	}
	if got, want := m.String(), "10.71.0.0/16 -> 10.0.0.0/16"; got != want {
		t.Errorf("String is %q, want %q", got, want)
	}
}

func TestNewMapRefusesWhatIsNoBijectionAndSaysWhatToWrite(t *testing.T) {
	t.Parallel()
	prefix := func(s string) netip.Prefix {
		p, _ := netip.ParsePrefix(s)
		return p
	}
	for _, c := range []struct{ from, to, want string }{
		{"", "10.0.0.0/16", "nat: invalid Prefix to 10.0.0.0/16: not a prefix"},
		{"10.0.0.0/16", "", "nat: 10.0.0.0/16 to invalid Prefix: not a prefix"},
		{"10.0.0.0/16", "10.1.0.0/17", "nat: 10.0.0.0/16 to 10.1.0.0/17: lengths differ; both must be /16"},
		{"10.0.0.0/16", "fd00::/16", "nat: 10.0.0.0/16 to fd00::/16: prefixes of different families; pair IPv4 with IPv4 and IPv6 with IPv6"},
		{"::ffff:10.0.0.0/112", "fd00::/112", "nat: ::ffff:10.0.0.0/112 to fd00::/112: prefixes of different families; pair IPv4 with IPv4 and IPv6 with IPv6"},
		{"fd00::/112", "::ffff:10.0.0.0/112", "nat: fd00::/112 to ::ffff:10.0.0.0/112: prefixes of different families; pair IPv4 with IPv4 and IPv6 with IPv6"},
		{"10.0.1.0/16", "10.1.0.0/16", "nat: 10.0.1.0/16 to 10.1.0.0/16: host bits are set; write 10.0.0.0/16 and 10.1.0.0/16"},
		{"fd00::/64", "fd00:1::1/64", "nat: fd00::/64 to fd00:1::1/64: host bits are set; write fd00::/64 and fd00:1::/64"},
	} {
		m, err := nat.NewMap(prefix(c.from), prefix(c.to))
		if err == nil || m != nil || err.Error() != c.want {
			t.Errorf("NewMap(%s, %s) = %v, %v\nwant %s", c.from, c.to, m, err, c.want)
		}
	}
}
