package translate

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// Input is what a configuration is made from. Nothing of it is changed.
type Input struct {
	Settings
	Network *v1alpha1.ClusterNetwork   // nil: there is none
	Peering *v1alpha1.Peering          // the gateway's; nil: there is none
	Nodes   []*v1alpha1.NodeAttachment // of the whole cluster
	Pods    []Pod                      // those outside of their node's podCIDRs at least
	Now     time.Time                  // what is to end by then has ended

	Mappings []*v1alpha1.AddressMapping // of the whole cluster
}

// Settings are what a gateway knows of itself, without objects.
type Settings struct {
	Name         string       // of the gateway, as in status.gateways of its Peering
	PodAddresses []netip.Addr // of its pod, in the pod's order

	Geneve, VXLAN, Observability config.ListenAddress
	WireGuardPort                uint16            // UDP
	Keys                         []OwnKey          // the gateway's own, newest first, that of an invite last
	InviteUsed                   bool              // the invite did its work: its key counts no more
	PresharedKeyFiles            map[string]string // by the name of the Secret
}

// OwnKey is a key pair of the gateway.
type OwnKey struct {
	File       string // of the private key
	Public     config.Key
	Generation int32 // as in spec.gateway.keyGeneration; 0: the temporary one of an invite
}

// invited is the generation of an invite's key.
const invited = 0

// Gateway is the valid configuration of the gateway, and what had to be left out of it.
// It is nil where the gateway has nothing to serve: its Peering or the ClusterNetwork
// is not there any more, or the controller has not given the gateway its place yet.
func Gateway(in Input) (*config.Gateway, []Problem) {
	t := &translation{Input: in}
	t.Nodes = slices.SortedFunc(slices.Values(in.Nodes), func(a, b *v1alpha1.NodeAttachment) int { return cmp.Compare(a.Name, b.Name) })
	key := t.key()
	if t.assigned = t.findAssigned(); t.assigned == nil || key == "" {
		return nil, sorted(t.problems)
	}
	t.remoteState = peering.RemoteOf(in.Peering, in.Now)
	t.config = &config.Gateway{
		APIVersion: config.APIVersion, Kind: config.Kind, Cluster: string(in.Network.Status.ClusterID),
		Overlay: config.Overlay{
			Listen: in.Geneve, VXLANListen: in.VXLAN, MTU: int(in.Network.Spec.Overlay.MTU),
			Addresses:         t.addresses(t.peering(), "status.gateways", t.assigned.InternalAddresses),
			ExternalAddresses: t.addresses(t.peering(), "status.gateways", t.assigned.ExternalAddresses),
		},
		WireGuard:     config.WireGuard{ListenPort: in.WireGuardPort, PrivateKeyFile: key},
		Local:         t.local(),
		Remote:        config.Remote{Cluster: t.remoteCluster()},
		Observability: config.Observability{Listen: in.Observability},
	}
	t.config.WireGuard.Peers = t.peers()
	t.config.Remote.Prefixes = t.remote()
	t.config.Masquerade = t.masquerade()
	t.reserve()
	t.config.Overlay.Nodes = t.nodes(t.assigned.Number)
	t.config.Mappings = t.mappings()
	t.pods()
	if !t.removeInvalid() {
		t.config = nil
	}
	return t.config, sorted(t.problems)
}

// Withdrawn is a configuration of the same gateway that serves nobody: no node, no
// peer, no grant.
func Withdrawn(c *config.Gateway) *config.Gateway {
	w := *c
	w.Overlay.Nodes, w.Overlay.ExternalAddresses = nil, nil
	w.WireGuard.Peers = nil
	w.Local, w.Remote = config.Local{}, config.Remote{}
	w.Masquerade, w.Mappings = config.Masquerade{}, nil
	return &w
}

// translation is one call of Gateway.
type translation struct {
	Input
	assigned    *v1alpha1.GatewayStatus // of the gateway
	remoteState peering.Remote          // what is in force of the remote cluster
	config      *config.Gateway
	problems    []Problem

	reserved      ranges                    // what no pod may have an address from
	mapped        map[config.Mapping]string // the names of AddressMappings
	routes        map[netip.Prefix]string   // routes to single pods, and the names of the pods
	reportedNodes map[string]bool           // nodes of which it is told that a pod has another node's address
}

func (t *translation) problem(object, field, text, remedy string) {
	t.problems = append(t.problems, Problem{object, field, text, remedy})
}

// remoteCluster is the ID of the remote cluster. Until it is known, the name of the
// Peering stands for it, if that is not this cluster's ID.
func (t *translation) remoteCluster() string {
	switch id := t.remoteState.ClusterID; {
	case id != "":
		return string(id)
	case t.Peering.Name == string(t.Network.Status.ClusterID):
		return "peering-" + t.Peering.Name
	}
	return t.Peering.Name
}

// Names of objects in problems.
const network = "ClusterNetwork " + v1alpha1.ClusterNetworkName

func (t *translation) peering() string { return "Peering " + t.Peering.Name }

func attachment(name string) string { return "NodeAttachment " + name }

// key is the file of the gateway's newest key that is not of an invite, "" if it has
// none.
func (t *translation) key() string {
	for _, k := range t.Keys {
		if k.Generation != invited {
			return k.File
		}
	}
	t.problem("gateway "+t.Name, "", "has no key yet", "see in the log of Strait's controller why it has not created Secrets named "+t.Name+"-key-1 and so on")
	return ""
}

// findAssigned is what the controller gave the gateway, nil where that is not enough.
func (t *translation) findAssigned() *v1alpha1.GatewayStatus {
	const wait = "see in the log of Strait's controller why it has not given them"
	switch {
	case t.Network == nil:
		t.problem(network, "", "does not exist", "create it, or let Strait's controller do so")
		return nil
	case t.Network.Status.ClusterID == "":
		t.problem(network, "status.clusterID", "is missing", wait)
		return nil
	case t.Peering == nil:
		t.problem("Peering of gateway "+t.Name, "", "does not exist", "create it, or remove the gateway")
		return nil
	case t.Peering.DeletionTimestamp != nil:
		t.problem(t.peering(), "metadata.deletionTimestamp", "is being deleted", "nothing, or create it anew when it is gone")
		return nil
	}
	for i := range t.Peering.Status.Gateways {
		g := &t.Peering.Status.Gateways[i]
		if g.Name == t.Name && g.Number >= 1 && g.Number <= 255 && len(g.InternalAddresses) > 0 {
			return g
		}
	}
	t.problem(t.peering(), "status.gateways", "has no number and internal addresses for gateway "+t.Name, wait)
	return nil
}

// addresses are the readable ones of a field.
func (t *translation) addresses(object, field string, texts []v1alpha1.IP) (all []netip.Addr) {
	for _, text := range texts {
		a, err := netip.ParseAddr(string(text))
		if err != nil {
			t.problem(object, field, quote(text)+" is not an address", "write one like 10.80.0.11 or fd00:80::11")
			continue
		}
		all = append(all, a)
	}
	return all
}

// prefixes are the readable ones of a field.
func (t *translation) prefixes(object, field string, texts []v1alpha1.CIDR) (all []netip.Prefix) {
	for _, text := range texts {
		if p, ok := t.prefix(object, field, text); ok {
			all = append(all, p)
		}
	}
	return all
}

func (t *translation) prefix(object, field string, text v1alpha1.CIDR) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(string(text))
	if err != nil {
		t.problem(object, field, quote(text)+" is not a prefix", "write one like 10.0.0.0/16 or fd00:10::/48")
	}
	return p, err == nil
}

// quote shows what an object says, cut to a length that fits a line.
func quote[T ~string](text T) string {
	const maxQuoted = 64
	s := string(text)
	if len(s) > maxQuoted {
		s = strings.ToValidUTF8(s[:maxQuoted], "") + "..."
	}
	return `"` + s + `"`
}
