package translate

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The gateway of all tests.
func settings() Settings {
	own, err := config.ParseKey("XcgfvMDKZ8buZIUrAIcmJHgDDB7mGcu7LXzJIdBYdGU=")
	if err != nil {
		panic(err)
	}
	return Settings{
		Name:         "b-0",
		PodAddresses: []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("2001:db8::10")},
		Geneve:       config.ListenAddress{Port: 6091}, VXLAN: config.ListenAddress{Port: 6092}, Observability: config.ListenAddress{Port: 8080},
		WireGuardPort: 51840, Keys: []OwnKey{{File: "/etc/strait/private.key", Public: own, Generation: 1}},
		PresharedKeyFiles: map[string]string{"b-psk": "/etc/strait/preshared/b-psk"},
	}
}

// noon is the time in all tests.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// gatewayDocument is what a file may say of the gateway itself.
type gatewayDocument Input

func (d *gatewayDocument) UnmarshalJSON(text []byte) error {
	var document struct {
		Kind       string
		InviteUsed bool

		WithoutNodes bool
		Keys         []struct {
			File, Public string
			Generation   int32
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return err
	}
	d.InviteUsed, d.WithoutNodes = document.InviteUsed, document.WithoutNodes
	if document.Keys == nil {
		return nil
	}
	d.Keys = nil
	for _, k := range document.Keys {
		public, err := config.ParseKey(k.Public)
		if err != nil {
			return err
		}
		d.Keys = append(d.Keys, OwnKey{File: k.File, Public: public, Generation: k.Generation})
	}
	return nil
}

// load reads objects from a file into an Input.
func load(t testing.TB, name string) Input {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Settings: settings(), Now: noon}
	for i, document := range bytes.Split(text, []byte("\n---\n")) {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatalf("%s: object %d: %v", name, i, err)
		}
		var object any
		switch kind.Kind {
		case "":
			continue // a comment
		case "ClusterNetwork":
			in.Network = new(v1alpha1.ClusterNetwork)
			object = in.Network
		case "Peering":
			in.Peering = new(v1alpha1.Peering)
			object = in.Peering
		case "NodeAttachment":
			node := new(v1alpha1.NodeAttachment)
			in.Nodes = append(in.Nodes, node)
			object = node
		case "AddressMapping":
			mapping := new(v1alpha1.AddressMapping)
			in.Mappings = append(in.Mappings, mapping)
			object = mapping
		case "ReceivedService":
			r := new(v1alpha1.ReceivedService)
			in.Received = append(in.Received, r)
			object = r
		case "Gateway":
			object = (*gatewayDocument)(&in)
		default:
			t.Fatalf("%s: object %d is a %q", name, i, kind.Kind)
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Fatalf("%s: object %d: %v", name, i, err)
		}
	}
	return in
}

// render is what a golden file holds: the configuration, and the problems before it.
func render(t testing.TB, c *config.Gateway, problems []Problem) string {
	t.Helper()
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "# %s\n", p)
	}
	if c == nil {
		return b.String() + "# nothing to serve\n"
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	b.Write(text)
	return b.String()
}

func TestObjectsBecomeConfigurations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for _, file := range files {
		if strings.HasSuffix(file, ".golden.yaml") {
			continue
		}
		cases++
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			c, problems := Gateway(load(t, file))
			if c != nil {
				if err := c.Validate(); err != nil {
					t.Error(err)
				}
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".golden.yaml"
			got := render(t, c, problems)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	if cases == 0 {
		t.Error("no case found")
	}
}

func TestAWithdrawnConfigurationServesNoNode(t *testing.T) {
	c, _ := Gateway(load(t, "testdata/whole.yaml"))
	before := render(t, c, nil)
	const want = `apiVersion: strait.dev/v1alpha1
kind: GatewayConfig
cluster: a
overlay:
  listen: :6091
  vxlanListen: :6092
  addresses: [10.80.0.1, 'fd00:80::1']
  mtu: 1400
wireguard:
  listenPort: 51840
  replicas: 1
  privateKeyFile: /etc/strait/private.key
mssClamp: auto
observability:
  listen: :8080
`
	if got := render(t, Withdrawn(c), nil); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if render(t, c, nil) != before {
		t.Error("what it was made from has changed")
	}
	for _, file := range []string{"testdata/masquerade.yaml", "testdata/mappings.yaml"} {
		c, _ := Gateway(load(t, file))
		if err := Withdrawn(c).Validate(); err != nil {
			t.Errorf("%s withdrawn: %v", file, err)
		}
	}
}
