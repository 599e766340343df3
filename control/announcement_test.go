package control

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"strait.dev/strait/config"
)

func TestAnnouncementsSurviveTheWire(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]Announcement{
		"everything":    announcement(),
		"nothing given": {Revision: 1, Cluster: "b", Gateway: "b-0", Gateways: []Gateway{{"b-0", []config.Key{keyNumber(2)}, nil}}},
	} {
		b, err := a.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeAnnouncement(b)
		if err != nil {
			t.Fatalf("%s: %v in %s", name, err, b)
		}
		if !reflect.DeepEqual(*got, a) {
			t.Errorf("%s: %+v became %+v", name, a, *got)
		}
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	a := announcement()
	b, err := a.encode()
	if err != nil {
		t.Fatal(err)
	}
	later := strings.Replace(string(b), `{"cluster"`, `{"later": {"deep": [1, {}]}, "cluster"`, 1)
	later = strings.Replace(later, `{"name"`, `{"weight": 7, "name"`, 1)
	got, err := decodeAnnouncement([]byte(later))
	if err != nil || !reflect.DeepEqual(*got, a) {
		t.Errorf("%+v, %v", got, err)
	}
}

// many makes a list of n things.
func many[T any](n int, make func(i int) T) (all []T) {
	for i := range n {
		all = append(all, make(i))
	}
	return all
}

func TestInvalidAnnouncementsAreNamedByTheirField(t *testing.T) {
	t.Parallel()
	small := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 99, byte(i >> 8), byte(i)}), 32)
	}
	for says, change := range map[string]func(a *Announcement){
		`cluster: "B" is not an RFC 1123 label`:                 func(a *Announcement) { a.Cluster = "B" },
		`gateway: "b.0" is not an RFC 1123 label`:               func(a *Announcement) { a.Gateway = "b.0" },
		"lender.address: 10.71.0.1 is in no external prefix":    func(a *Announcement) { a.Lender.Address = netip.MustParseAddr("10.71.0.1") },
		"lender.port: 0 is out of range":                        func(a *Announcement) { a.Lender.Port = 0 },
		"lender.fingerprint: is not a fingerprint":              func(a *Announcement) { a.Lender.Fingerprint = "SHA256:x" },
		"borrower: is not a fingerprint":                        func(a *Announcement) { a.Borrower = strings.Repeat("Z", 64) },
		"gateways: the sender b-9 is missing":                   func(a *Announcement) { a.Gateway = "b-9" },
		"prefixes: 65 are too many":                             func(a *Announcement) { a.Prefixes = many(65, small) },
		"externalPrefixes: 65 are too many":                     func(a *Announcement) { a.ExternalPrefixes = many(65, small) },
		"prefixes[0]: 0.0.0.0/0 is too wide":                    func(a *Announcement) { a.Prefixes[0] = netip.MustParsePrefix("0.0.0.0/0") },
		"prefixes[0]: 10.0.0.1/16 has host bits set":            func(a *Announcement) { a.Prefixes[0] = netip.MustParsePrefix("10.0.0.1/16") },
		"prefixes[1]: fe80::/64 is link-local":                  func(a *Announcement) { a.Prefixes[1] = netip.MustParsePrefix("fe80::/64") },
		"prefixes[1]: ::ffff:10.1.0.0/112 is an IPv4 prefix in": func(a *Announcement) { a.Prefixes[1] = netip.MustParsePrefix("::ffff:10.1.0.0/112") },
		"prefixes[1]: 10.0.9.0/24 overlaps 10.0.0.0/16":         func(a *Announcement) { a.Prefixes[1] = netip.MustParsePrefix("10.0.9.0/24") },
		"externalPrefixes[0]: 10.0.0.0/8 overlaps 10.0.0.0/16":  func(a *Announcement) { a.ExternalPrefixes[0] = netip.MustParsePrefix("10.0.0.0/8") },
		"externalPrefixes[0]: missing":                          func(a *Announcement) { a.ExternalPrefixes[0] = netip.Prefix{} },
		"gateways: the sender b-0 is missing; anno":             func(a *Announcement) { a.Gateways = nil },
		"gateways: 17 are too many": func(a *Announcement) {
			a.Gateways = many(17, func(i int) Gateway { return Gateway{fmt.Sprint("b-", i), []config.Key{keyNumber(byte(9 + i))}, nil} })
		},
		`gateways[1].name: "" is not`:                         func(a *Announcement) { a.Gateways[1].Name = "" },
		`gateways[1].name: "` + strings.Repeat("x", 20):       func(a *Announcement) { a.Gateways[1].Name = strings.Repeat("x", 64) },
		"gateways[1].name: b-0 occurs twice":                  func(a *Announcement) { a.Gateways[1].Name = "b-0" },
		"gateways[1].publicKeys: 0 keys":                      func(a *Announcement) { a.Gateways[1].PublicKeys = nil },
		"gateways[1].publicKeys: 3 keys":                      func(a *Announcement) { a.Gateways[1].PublicKeys = []config.Key{{9}, {8}, {7}} },
		"gateways[1].publicKeys[0]: missing":                  func(a *Announcement) { a.Gateways[1].PublicKeys[0] = config.Key{} },
		"is a low-order point":                                func(a *Announcement) { a.Gateways[1].PublicKeys[0] = config.Key{1} },
		"gateways[1].publicKeys[0]: " + keyNumber(2).String(): func(a *Announcement) { a.Gateways[1].PublicKeys[0] = keyNumber(2) },
		"gateways[0].endpoints: 9 are too many": func(a *Announcement) {
			a.Gateways[0].Endpoints = many(9, func(i int) string { return fmt.Sprint("h:", i+1) })
		},
		`gateways[0].endpoints[0]: is empty`:                   func(a *Announcement) { a.Gateways[0].Endpoints[0] = "" },
		`gateways[0].endpoints[1]: "gw-b.example" is not an`:   func(a *Announcement) { a.Gateways[0].Endpoints[1] = "gw-b.example" },
		"gateways[0].endpoints[1]: gw-b.example:51840 occurs ": func(a *Announcement) { a.Gateways[0].Endpoints[1] = a.Gateways[0].Endpoints[0] },
	} {
		a := announcement()
		change(&a)
		if err := a.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got  %v\nwant %s", err, says)
		}
		b, err := a.encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeAnnouncement(b); err == nil {
			t.Errorf("accepted %+v, which should say %s", got, says)
		}
	}
}

func TestMalformedAnnouncementsAreRefusedWithoutRepeatingKeys(t *testing.T) {
	t.Parallel()
	const secret = "iJXlbBlGW5pcuRDAIEMYHKIGxnTU0mn8WYFLCIA9YVE"
	good := announcement()
	b, err := good.encode()
	if err != nil {
		t.Fatal(err)
	}
	replace := func(old, new string) string { return strings.Replace(string(b), old, new, 1) }
	for name, c := range map[string]struct{ body, says string }{
		"nothing":          {"", "is not the expected JSON"},
		"no JSON":          {"cluster: b", "is not the expected JSON"},
		"an array":         {"[]", "is not the expected JSON"},
		"null":             {"null", "cluster"},
		"cut short":        {string(b[:len(b)-2]), "is not the expected JSON"},
		"two values":       {string(b) + "{}", "has data after the JSON value"},
		"another type":     {replace(`"cluster":"b"`, `"cluster":7`), "is not the expected JSON"},
		"no prefix":        {replace(`"10.70.0.0/16"`, `"10.70.0.0"`), "is not the expected JSON"},
		"no key":           {replace(keyNumber(4).String(), secret), "is not 32 bytes in base64"},
		"a million fields": {`{"a":[` + strings.Repeat("1,", maxBody) + `1]}`, "is longer than 65536 bytes"},
	} {
		_, err := decodeAnnouncement([]byte(c.body))
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got  %v\nwant %s", name, err, c.says)
		}
	}
}

// FuzzAnnouncement: no bytes panic, what is accepted keeps every limit, and it reads
// the same when it is written again.
func FuzzAnnouncement(f *testing.F) {
	a := announcement()
	b, err := a.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"gateways":[{"publicKeys":[null]}],"prefixes":["::/0"]}`))
	f.Add([]byte(`{"cluster":"b","Gateway":"b-0","gateways":[{"name":"b-0","publicKeys":["3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="],"endpoints":[]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAnnouncement(b)
		if err != nil {
			return
		}
		if err := a.Validate(); err != nil {
			t.Fatalf("accepted, but %v", err)
		}
		if len(a.Prefixes) > 64 || len(a.ExternalPrefixes) > 64 || len(a.Gateways) > 16 {
			t.Fatalf("accepted beyond the limits: %+v", a)
		}
		again, err := a.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeAnnouncement(again)
		if err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("%+v became %+v, %v", a, got, err)
		}
	})
}
