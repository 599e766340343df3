package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// render writes a configuration as a file, every field of it.
func render(g *Gateway) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("apiVersion: %q\nkind: %q\ncluster: %q", g.APIVersion, g.Kind, g.Cluster)
	line("overlay:\n  listen: %q\n  vxlanListen: %q", g.Overlay.Listen, g.Overlay.VXLANListen)
	line("  addresses: %s\n  externalAddresses: %s", flow(g.Overlay.Addresses), flow(g.Overlay.ExternalAddresses))
	line("  mtu: %d\n  nodes:", g.Overlay.MTU)
	for _, n := range g.Overlay.Nodes {
		line("  - {name: %q, underlay: %q, encapsulation: %q, vni: %d,", n.Name, n.Underlay, n.Encapsulation, n.VNI)
		line("     addresses: %s, externalAddresses: %s, prefixes: %s}", flow(n.Addresses), flow(n.ExternalAddresses), flow(n.Prefixes))
	}
	line("wireguard:\n  listenPort: %d\n  ordinal: %d\n  replicas: %d\n  privateKeyFile: %q\n  peers:",
		g.WireGuard.ListenPort, g.WireGuard.Ordinal, g.WireGuard.Replicas, g.WireGuard.PrivateKeyFile)
	for _, p := range g.WireGuard.Peers {
		line("  - {name: %q, gateway: %q, publicKey: %q,", p.Name, p.Gateway, p.PublicKey)
		line("     privateKeyFile: %q, presharedKeyFile: %q,", p.PrivateKeyFile, p.PresharedKeyFile)
		line("     endpoint: %q, moreEndpoints: [%s], persistentKeepalive: %s}", p.Endpoint, quoted(p.MoreEndpoints), p.PersistentKeepalive)
	}
	line("local: {prefixes: %s, externalPrefixes: %s}", flow(g.Local.Prefixes), flow(g.Local.ExternalPrefixes))
	line("remote:\n  cluster: %q\n  prefixes:", g.Remote.Cluster)
	for _, p := range g.Remote.Prefixes {
		line("  - {cidr: %q, seenAs: %q}", p.CIDR, p.SeenAs)
	}
	line("masquerade: {sources: %s, flows: %d, flowsPerSource: %d}", flow(g.Masquerade.Sources), g.Masquerade.Flows, g.Masquerade.FlowsPerSource)
	line("mappings:")
	for _, m := range g.Mappings {
		line("- {external: %q, target: %q}", m.External, m.Target)
	}
	switch {
	case g.MSSClamp.Off:
		line("mssClamp: off")
	case g.MSSClamp.Value != 0:
		line("mssClamp: %d", g.MSSClamp.Value)
	}
	line("observability: {listen: %q}", g.Observability.Listen)
	return b.String()
}

// flow writes a list of addresses or prefixes in one line.
func flow[T fmt.Stringer](all []T) string {
	var texts []string
	for _, one := range all {
		texts = append(texts, fmt.Sprintf("%q", one))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// quoted writes a list of texts, without its brackets.
func quoted(texts []string) string {
	var all []string
	for _, text := range texts {
		all = append(all, fmt.Sprintf("%q", text))
	}
	return strings.Join(all, ", ")
}

// lineBreak is any of those of YAML 1.1.
var lineBreak = regexp.MustCompile("[\n\r\u0085\u2028\u2029]")

// FuzzParse: no input panics, every problem says where and what to do, and what
// is accepted reads the same when written out again.
func FuzzParse(f *testing.F) {
	document := valid(f)
	f.Add(document)
	f.Add(string(large(3, 2)))
	f.Add("")
	f.Add("a: &a [*a]")
	f.Add("? {a: [b]}\n: - <<: *c")
	g, err := Parse([]byte(document))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(render(g))
	f.Fuzz(func(t *testing.T, text string) {
		g, err := Parse([]byte(text))
		if err == nil {
			err = g.Validate()
		}
		if err != nil {
			var problems Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("%T: %v", err, err)
			}
			last := len(lineBreak.FindAllString(text, -1)) + 1
			for _, p := range problems {
				if p.Line < 1 || p.Line > last || p.Text == "" || p.Remedy == "" || strings.Contains(p.message(), "\n") {
					t.Errorf("%+v, of %d lines", p, last)
				}
			}
			return
		}
		again, err := Parse([]byte(render(g)))
		if err != nil {
			t.Fatalf("%v in what was written out:\n%s", err, render(g))
		}
		if err := again.Validate(); err != nil {
			t.Errorf("%v in what was written out:\n%s", err, render(g))
		}
		g.source, again.source = nil, nil
		if !reflect.DeepEqual(g, again) {
			t.Errorf("got  %+v\nwant %+v", again, g)
		}
	})
}
