package lab

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"text/template"

	"strait.dev/strait/internal/netns"
)

// GatewayConfig is the part of a gateway's configuration file that scenarios vary.
type GatewayConfig struct {
	Cluster, RemoteCluster            string
	Listen, VXLANListen               string
	MTU                               int
	Nodes                             []NodeConfig
	WireGuardPort                     int
	PrivateKeyFile, PresharedKeyFile  string
	Replicas, Ordinal                 int
	FirstPeers                        []PeerConfig // before the one of PeerKey
	PeerKey                           string
	PeerEndpoint                      string // empty: wait for the peer
	Addresses, ExternalAddresses      []netip.Addr
	LocalPrefixes, LocalExternalCIDRs []netip.Prefix
	Remote                            []RemotePrefix
	Mappings                          []Mapping
	Observability                     string
}

// PeerConfig is a link to one more gateway of the other site.
type PeerConfig struct{ Name, Key, Endpoint string }

// Mapping is an external address for a target outside of the pod network.
type Mapping struct{ External, Target netip.Addr }

// NodeConfig is a node of the gateway.
type NodeConfig struct {
	Name                         string
	Underlay                     netip.Addr
	Encapsulation                string
	VNI                          int
	Addresses, ExternalAddresses []netip.Addr
	Prefixes                     []netip.Prefix
}

// plainConfig returns the configuration of the topology.
func plainConfig(s, other *Site, keyFile string, peer []byte) GatewayConfig {
	nodeUnderlay := s.Bridge4
	if s.Underlay.Is6() {
		nodeUnderlay = s.Bridge6
	}
	return GatewayConfig{
		Cluster: s.Name, RemoteCluster: other.Name,
		Listen:      netip.AddrPortFrom(s.Underlay, netns.TunnelPorts["geneve"]).String(),
		VXLANListen: netip.AddrPortFrom(s.Underlay, netns.TunnelPorts["vxlan"]).String(),
		Nodes: []NodeConfig{{
			Name: "node-" + s.Name, Underlay: nodeUnderlay, Encapsulation: s.Encapsulation, VNI: VNI,
			Addresses: NodeInternal, ExternalAddresses: NodeExternal,
			Prefixes: []netip.Prefix{s.PodNet4, s.PodNet6},
		}},
		WireGuardPort: WireGuardPort, PrivateKeyFile: keyFile, PeerKey: base64.StdEncoding.EncodeToString(peer),
		PeerEndpoint: netip.AddrPortFrom(other.Endpoint, WireGuardPort).String(),
		Addresses:    GatewayInternal, ExternalAddresses: GatewayExternal,
		LocalPrefixes: PodCIDRs, LocalExternalCIDRs: ExternalCIDRs,
		Remote: s.Remote, Observability: "127.0.0.1:8080",
	}
}

// ConfigTemplate makes the configuration file of a GatewayConfig.
var ConfigTemplate = template.Must(template.New("gateway.yaml").Funcs(template.FuncMap{"list": yamlList}).Parse(`apiVersion: strait.dev/v1alpha1
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

// WriteConfig writes g.config to the gateway's configuration file.
func (g *Gateway) WriteConfig(t *testing.T) {
	t.Helper()
	var text strings.Builder
	if err := ConfigTemplate.Execute(&text, g.Config); err != nil {
		t.Fatal(err)
	}
	g.ReplaceConfigFile(t, text.String())
}

// ReplaceConfigFile replaces the file atomically.
func (g *Gateway) ReplaceConfigFile(t *testing.T, text string) {
	t.Helper()
	next := g.ConfigFile() + ".next"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, g.ConfigFile()); err != nil {
		t.Fatal(err)
	}
}
