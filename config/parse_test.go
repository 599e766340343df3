package config

import (
	"errors"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// valid is the document that tests start from; it uses every field.
func valid(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// check parses and validates, like a program that loads a file.
func check(text string) error {
	g, err := Parse([]byte(text))
	if err != nil {
		return err
	}
	return g.Validate()
}

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func key(t testing.TB, text string) Key {
	t.Helper()
	k, err := ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func remotePrefix(cidr, seenAs string) RemotePrefix {
	return RemotePrefix{netip.MustParsePrefix(cidr), netip.MustParsePrefix(seenAs)}
}

func TestEveryFieldOfAFileArrives(t *testing.T) {
	t.Parallel()
	g, err := Parse([]byte(valid(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Validate(); err != nil {
		t.Error(err)
	}
	want := &Gateway{
		APIVersion: "strait.dev/v1alpha1", Kind: "GatewayConfig", Cluster: "a",
		Overlay: Overlay{
			Listen:      ListenAddress{netip.MustParseAddr("192.0.2.10"), 6091},
			VXLANListen: ListenAddress{Port: 6092},
			Addresses:   addresses("10.80.0.1", "fd00:80::1"), ExternalAddresses: addresses("10.70.0.1"),
			Nodes: []Node{{
				Name: "node-1", Underlay: netip.MustParseAddr("192.0.2.21"), Encapsulation: Geneve, VNI: 101,
				Addresses: addresses("10.80.0.11", "fd00:80::11"), ExternalAddresses: addresses("10.70.0.11"),
				Prefixes: prefixes("10.0.1.0/24", "10.0.9.7/32", "fd00:10:0:1::/64"),
			}, {
				Name: "node-2", Underlay: netip.MustParseAddr("192.0.2.22"), Encapsulation: VXLAN, VNI: 102,
				Addresses: addresses("10.80.0.12"), ExternalAddresses: addresses("10.70.0.12"),
				Prefixes: prefixes("10.0.2.0/24"),
			}},
		},
		WireGuard: WireGuard{
			ListenPort: 51841, PrivateKeyFile: "/etc/strait/private.key",
			Peers: []Peer{{
				Name: "b-0", PublicKey: key(t, "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="),
				PresharedKeyFile: "/etc/strait/preshared.key",
				Endpoint:         "gw-b.example:51840", PersistentKeepalive: 25 * time.Second,
			}, {
				Name: "b-1", PublicKey: key(t, "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="),
				PrivateKeyFile: "/etc/strait/next.key", Gateway: "b-0",
			}},
		},
		Local: Local{prefixes("10.0.0.0/16", "fd00:10::/48"), prefixes("10.70.0.0/16")},
		Remote: Remote{"b", []RemotePrefix{
			remotePrefix("10.0.0.0/16", "10.71.0.0/16"),
			remotePrefix("10.70.0.0/16", "10.73.0.0/16"),
			remotePrefix("fd00:20::/48", "fd00:20::/48"), // mapped to itself
		}},
		Masquerade:    Masquerade{Sources: prefixes("198.51.100.0/24", "203.0.113.9/32"), Flows: 1000, FlowsPerSource: 100},
		Mappings:      []Mapping{{addresses("10.70.1.9")[0], addresses("192.0.2.77")[0]}},
		MSSClamp:      MSSClamp{Value: 1300},
		Observability: Observability{ListenAddress{netip.MustParseAddr("::1"), 8080}},
	}
	want.source = g.source
	if !reflect.DeepEqual(g, want) {
		t.Errorf("got  %+v\nwant %+v", g, want)
	}
}

func TestAbsentFieldsGetTheirDefaults(t *testing.T) {
	t.Parallel()
	g, err := Parse([]byte("cluster: a\nwireguard:\noverlay: {nodes: [{name: n}], addresses: null}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := g.Overlay.Listen, (ListenAddress{Port: 6091}); got != want {
		t.Errorf("overlay.listen %v, want %v", got, want)
	}
	if g.Overlay.VXLANListen.Configured() || g.Observability.Listen.Configured() {
		t.Error("vxlanListen or observability.listen is configured")
	}
	if g.WireGuard.ListenPort != 51840 {
		t.Errorf("wireguard.listenPort %d, want 51840", g.WireGuard.ListenPort)
	}
	if g.Overlay.Nodes[0].Encapsulation != Geneve {
		t.Errorf("encapsulation %q, want geneve", g.Overlay.Nodes[0].Encapsulation)
	}
	if g.MSSClamp != (MSSClamp{}) {
		t.Errorf("mssClamp %+v, want auto", g.MSSClamp)
	}
}

func TestAnEmptyListenAddressIsNotTheDefault(t *testing.T) {
	t.Parallel()
	g, err := Parse([]byte(`overlay: {listen: ""}`))
	if err != nil {
		t.Fatal(err)
	}
	if g.Overlay.Listen.Configured() {
		t.Errorf("overlay.listen %v, want none", g.Overlay.Listen)
	}
}

func TestListenAddressesPrintAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", ":6091", "192.0.2.10:6091", "0.0.0.0:1", "[2001:db8::1]:65535", "[::]:80"} {
		g, err := Parse([]byte("overlay: {listen: '" + text + "'}"))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := g.Overlay.Listen.String(); got != text {
			t.Errorf("%q prints as %q", text, got)
		}
	}
}

func TestAGatewayJoinedToNothingIsValid(t *testing.T) {
	t.Parallel()
	err := check("apiVersion: strait.dev/v1alpha1\nkind: GatewayConfig\ncluster: a\noverlay: {addresses: [10.80.0.1]}\nwireguard: {privateKeyFile: /etc/strait/private.key}\n")
	if err != nil {
		t.Error(err)
	}
}

func TestParseKeepsNothingOfItsInput(t *testing.T) {
	t.Parallel()
	data := []byte(strings.Replace(valid(t), "vni: 101", "vni: 0", 1))
	g, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	clear(data)
	want := "line 14: overlay.nodes[0].vni: 0 is not a VNI; use 1 to 16777215"
	if err := g.Validate(); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestAGatewayBuiltInCodeHasProblemsWithoutLines(t *testing.T) {
	t.Parallel()
	err := new(Gateway).Validate()
	var problems Problems
	if !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("got %v, want Problems", err)
	}
	for _, p := range problems {
		if p.Line != 0 || p.Field == "" || p.Text == "" || p.Remedy == "" {
			t.Errorf("%+v: want a field, a text and a remedy, and no line", p)
		}
	}
	if want := "apiVersion: \"\" is not served; use strait.dev/v1alpha1\n"; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v: does not begin with %q", err, want)
	}
}
