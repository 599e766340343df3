//go:build lab || nightly

package lab

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"text/template"
)

// gatewayConfig is the part of a gateway's configuration file that scenarios vary.
type gatewayConfig struct {
	Cluster, RemoteCluster            string
	Listen, VXLANListen               string
	MTU                               int
	Nodes                             []nodeConfig
	WireGuardPort                     int
	PrivateKeyFile, PresharedKeyFile  string
	Replicas, Ordinal                 int
	FirstPeers                        []peerConfig // before the one of PeerKey
	PeerKey                           string
	PeerEndpoint                      string // empty: wait for the peer
	Addresses, ExternalAddresses      []netip.Addr
	LocalPrefixes, LocalExternalCIDRs []netip.Prefix
	Remote                            []remotePrefix
	Mappings                          []mapping
	Observability                     string
}

// peerConfig is a link to one more gateway of the other site.
type peerConfig struct{ Name, Key, Endpoint string }

// mapping is an external address for a target outside of the pod network.
type mapping struct{ External, Target netip.Addr }

type nodeConfig struct {
	Name                         string
	Underlay                     netip.Addr
	Encapsulation                string
	VNI                          int
	Addresses, ExternalAddresses []netip.Addr
	Prefixes                     []netip.Prefix
}

// plainConfig returns the configuration of the topology.
func plainConfig(s, other *site, keyFile string, peer []byte) gatewayConfig {
	nodeUnderlay := s.bridge4
	if s.underlay.Is6() {
		nodeUnderlay = s.bridge6
	}
	return gatewayConfig{
		Cluster: s.name, RemoteCluster: other.name,
		Listen:      netip.AddrPortFrom(s.underlay, overlayPort["geneve"]).String(),
		VXLANListen: netip.AddrPortFrom(s.underlay, overlayPort["vxlan"]).String(),
		Nodes: []nodeConfig{{
			Name: "node-" + s.name, Underlay: nodeUnderlay, Encapsulation: s.encapsulation, VNI: vni,
			Addresses: nodeInternal, ExternalAddresses: nodeExternal,
			Prefixes: []netip.Prefix{s.podNet4, s.podNet6},
		}},
		WireGuardPort: wireGuardPort, PrivateKeyFile: keyFile, PeerKey: base64.StdEncoding.EncodeToString(peer),
		PeerEndpoint: netip.AddrPortFrom(other.endpoint, wireGuardPort).String(),
		Addresses:    gatewayInternal, ExternalAddresses: gatewayExternal,
		LocalPrefixes: podCIDRs, LocalExternalCIDRs: externalCIDRs,
		Remote: s.remote, Observability: "127.0.0.1:8080",
	}
}

var configTemplate = template.Must(template.New("gateway.yaml").Funcs(template.FuncMap{"list": yamlList}).Parse(`apiVersion: strait.dev/v1alpha1
kind: GatewayConfig
cluster: {{.Cluster}}
overlay:
  listen: "{{.Listen}}"
  vxlanListen: "{{.VXLANListen}}"
  addresses: {{list .Addresses}}
  externalAddresses: {{list .ExternalAddresses}}
  mtu: {{.MTU}}
  nodes:
{{- range .Nodes}}
  - name: {{.Name}}
    underlay: "{{.Underlay}}"
    encapsulation: {{.Encapsulation}}
    vni: {{.VNI}}
    addresses: {{list .Addresses}}
    externalAddresses: {{list .ExternalAddresses}}
    prefixes: {{list .Prefixes}}
{{- end}}
wireguard:
  listenPort: {{.WireGuardPort}}
  replicas: {{.Replicas}}
  ordinal: {{.Ordinal}}
  privateKeyFile: {{.PrivateKeyFile}}
  peers:
{{- range .FirstPeers}}
  - name: {{.Name}}
    publicKey: "{{.Key}}"
    endpoint: "{{.Endpoint}}"
{{- end}}
  - name: {{.RemoteCluster}}-0
    publicKey: "{{.PeerKey}}"
    presharedKeyFile: "{{.PresharedKeyFile}}"
    endpoint: "{{.PeerEndpoint}}"
    persistentKeepalive: 25s
local:
  prefixes: {{list .LocalPrefixes}}
  externalPrefixes: {{list .LocalExternalCIDRs}}
remote:
  cluster: {{.RemoteCluster}}
  prefixes:
{{- range .Remote}}
  - {cidr: "{{.CIDR}}", seenAs: "{{.SeenAs}}"}
{{- end}}
{{- if .Mappings}}
mappings:
{{- range .Mappings}}
- {external: "{{.External}}", target: "{{.Target}}"}
{{- end}}
{{- end}}
mssClamp: auto
observability:
  listen: "{{.Observability}}"
`))

// yamlList formats addresses or prefixes as a flow sequence of quoted strings.
func yamlList(list any) string {
	var quoted []string
	switch list := list.(type) {
	case []netip.Addr:
		for _, a := range list {
			quoted = append(quoted, fmt.Sprintf("%q", a))
		}
	case []netip.Prefix:
		for _, p := range list {
			quoted = append(quoted, fmt.Sprintf("%q", p))
		}
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// writeConfig writes g.config to the gateway's configuration file.
func (g *gateway) writeConfig(t *testing.T) {
	t.Helper()
	var text strings.Builder
	if err := configTemplate.Execute(&text, g.config); err != nil {
		t.Fatal(err)
	}
	g.replaceConfigFile(t, text.String())
}

// replaceConfigFile replaces the file atomically.
func (g *gateway) replaceConfigFile(t *testing.T, text string) {
	t.Helper()
	next := g.configFile() + ".next"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, g.configFile()); err != nil {
		t.Fatal(err)
	}
}
