package rig

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	"strait.dev/strait/internal/netns"
)

// unprivileged is the user ID of strait's gateways.
const unprivileged = 65534

// straitShape is how a pair of gateways differs from the default.
type straitShape struct {
	v6         bool // node links and the tunnel run over IPv6
	extraNodes int  // configured in addition to the existing one; nodes use VXLAN then
	idlePeers  int  // of gateway A, in addition to the existing one
}

// straitSubject is a pair of `strait gateway` with default settings, as user nobody and
// without capabilities.
func straitSubject(name, binary string, shape straitShape) *Subject {
	return &Subject{
		Name: name, translated: true, v6: shape.v6, dualStack: true,
		up: func(r *Rig, t *topology) (gateways []*process, err error) {
			encapsulation := t.a.node.Encapsulation()
			if shape.extraNodes > 0 {
				encapsulation = "vxlan"
			}
			keys, err := newKeyPairs()
			if err != nil {
				return nil, err
			}
			idle, err := idlePeerKeys(shape.idlePeers)
			if err != nil {
				return nil, err
			}
			for i, s := range t.sites() {
				if err := s.joinNode(encapsulation, shape.v6); err != nil {
					return gateways, err
				}
				if err := s.routeNode(t.other(s).seenAs); err != nil {
					return gateways, err
				}
				c := straitConfig{
					site: s, other: t.other(s), v6: shape.v6, Encapsulation: encapsulation,
					Spare: extraNodes(shape.extraNodes), PeerKey: keys[1-i].public,
				}
				if s == t.a {
					c.IdlePeerKeys = idle
				}
				g, err := r.startStrait(t, s, binary, &c, keys[i].private)
				if err != nil {
					return gateways, err
				}
				gateways = append(gateways, g)
			}
			return gateways, nil
		},
	}
}

// startStrait starts one gateway from a configuration.
func (r *Rig) startStrait(t *topology, s *site, binary string, c *straitConfig, private key) (*process, error) {
	dir, err := r.folder(t, s)
	if err != nil {
		return nil, err
	}
	c.PrivateKeyFile = filepath.Join(dir, "private.key")
	if err := os.WriteFile(c.PrivateKeyFile, []byte(private.String()+"\n"), 0o400); err != nil {
		return nil, err
	}
	if err := os.Chown(c.PrivateKeyFile, unprivileged, unprivileged); err != nil {
		return nil, err
	}
	var text strings.Builder
	if err := straitTemplate.Execute(&text, c); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "gateway.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		return nil, err
	}
	id := strconv.Itoa(unprivileged)
	return s.gw.start(t.gateways, dir, nil, nil,
		"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "--inh-caps=-all", "--ambient-caps=-all",
		"--bounding-set=-all", "--no-new-privs", "--pdeathsig", "KILL", binary, "gateway", "--config", file)
}

// straitConfig is the input of the configuration template.
type straitConfig struct {
	site, other    *site
	v6             bool
	Encapsulation  string
	Spare          []extraNode
	PrivateKeyFile string
	PeerKey        key
	IdlePeerKeys   []key
}

func (c *straitConfig) outer() int {
	if c.v6 {
		return 1
	}
	return 0
}

func (c *straitConfig) Name() string      { return c.site.name }
func (c *straitConfig) OtherName() string { return c.other.name }
func (c *straitConfig) Node() netip.Addr  { return c.site.nodeUnderlay[c.outer()] }
func (c *straitConfig) VNI() int          { return vni }
func (c *straitConfig) Port() uint16      { return straitPort }

func (c *straitConfig) Listen(encapsulation string) string {
	return netip.AddrPortFrom(c.site.gwUnderlay[c.outer()], netns.TunnelPorts[encapsulation]).String()
}

func (c *straitConfig) Endpoint() string {
	return netip.AddrPortFrom(c.other.wan[c.outer()], straitPort).String()
}

func (c *straitConfig) Addresses() pair         { return gwInternal }
func (c *straitConfig) ExternalAddresses() pair { return gwExternal }
func (c *straitConfig) NodeAddresses() pair     { return nodeInternal }
func (c *straitConfig) NodeExternal() pair      { return nodeExternal }
func (c *straitConfig) PodNet() pair4and6       { return c.site.podNet }
func (c *straitConfig) Pods() pair4and6         { return podCIDRs }
func (c *straitConfig) External() pair4and6     { return externalCIDRs }
func (c *straitConfig) SeenAs() pair4and6       { return c.other.seenAs }
func (c *straitConfig) ExternalSeenAs() pair4and6 {
	return c.other.externalSeenAs
}

// straitPort is the gateways' WireGuard port.
const straitPort = 51840

// list formats addresses or prefixes for YAML.
func list(of any) string {
	var all []string
	add := func(s fmt.Stringer) { all = append(all, strconv.Quote(s.String())) }
	switch of := of.(type) {
	case pair:
		add(of[0])
		add(of[1])
	case pair4and6:
		add(of[0])
		add(of[1])
	case []netip.Prefix:
		for _, p := range of {
			add(p)
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

var straitTemplate = template.Must(template.New("gateway.yaml").Funcs(template.FuncMap{"list": list}).Parse(`apiVersion: strait.dev/v1alpha1
kind: GatewayConfig
cluster: {{.Name}}
overlay:
  listen: "{{.Listen "geneve"}}"
  vxlanListen: "{{.Listen "vxlan"}}"
  addresses: {{list .Addresses}}
  externalAddresses: {{list .ExternalAddresses}}
  nodes:
  - name: node
    underlay: "{{.Node}}"
    encapsulation: {{.Encapsulation}}
    vni: {{.VNI}}
    addresses: {{list .NodeAddresses}}
    externalAddresses: {{list .NodeExternal}}
    prefixes: {{list .PodNet}}
{{- range .Spare}}
  - name: {{.Name}}
    underlay: "{{.Underlay}}"
    encapsulation: {{$.Encapsulation}}
    vni: {{.VNI}}
    addresses: ["{{.Internal}}"]
    externalAddresses: ["{{.External}}"]
    prefixes: {{list .Prefixes}}
{{- end}}
wireguard:
  listenPort: {{.Port}}
  privateKeyFile: {{.PrivateKeyFile}}
  peers:
  - name: {{.OtherName}}-0
    publicKey: "{{.PeerKey}}"
    endpoint: "{{.Endpoint}}"
    persistentKeepalive: 25s
{{- range $i, $key := .IdlePeerKeys}}
  - name: idle-{{$i}}
    publicKey: "{{$key}}"
{{- end}}
local:
  prefixes: {{list .Pods}}
  externalPrefixes: {{list .External}}
remote:
  cluster: {{.OtherName}}
  prefixes:
  - {cidr: "{{index .Pods 0}}", seenAs: "{{index .SeenAs 0}}"}
  - {cidr: "{{index .Pods 1}}", seenAs: "{{index .SeenAs 1}}"}
  - {cidr: "{{index .External 0}}", seenAs: "{{index .ExternalSeenAs 0}}"}
  - {cidr: "{{index .External 1}}", seenAs: "{{index .ExternalSeenAs 1}}"}
observability:
  listen: "127.0.0.1:8080"
`))
