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

// Input is the input of a configuration. It is not changed.
type Input struct {
	Settings
	Network *v1alpha1.ClusterNetwork   // nil: there is none
	Peering *v1alpha1.Peering          // the gateway's; nil: there is none
	Nodes   []*v1alpha1.NodeAttachment // of the whole cluster
	Now     time.Time                  // reference time for expiry

	Mappings []*v1alpha1.AddressMapping  // of the whole cluster
	Received []*v1alpha1.ReceivedService // of the Peering at least; used only WithoutNodes
}

// Settings are the parameters of a gateway that do not come from objects.
type Settings struct {
	Name         string       // of the gateway, as in status.gateways of its Peering
	PodAddresses []netip.Addr // of its pod, in the pod's order

	Geneve, VXLAN, Observability config.ListenAddress
	WireGuardPort                uint16            // UDP
	WithoutNodes                 bool              // the cluster has no node helpers: the gateway carries connections
	Keys                         []OwnKey          // the gateway's own, newest first, that of an invite last
	InviteUsed                   bool              // the invite is no longer needed: its key is ignored
	PresharedKeyFiles            map[string]string // by the name of the Secret
}

// OwnKey is a key pair of the gateway.
type OwnKey struct {
	File       string // of the private key
	Public     config.Key
	Generation int32 // as in spec.gateway.keyGeneration; 0: the temporary one of an invite
}

const invited = 0

// Gateway returns the valid configuration of the gateway, and what was left out of it. It
// is nil if the gateway has nothing to serve: its Peering or the ClusterNetwork does not
// exist, or the controller has not assigned a number and addresses yet.
func Gateway(in Input) (*config.Gateway, []Problem) {
	t := &translation{Input: in}
	t.Nodes = slices.SortedFunc(slices.Values(in.Nodes), func(a, b *v1alpha1.NodeAttachment) int { return cmp.Compare(a.Name, b.Name) })
	key := t.key()
	if t.assigned = t.findAssigned(); t.assigned == nil || key == "" {
		return nil, sorted(t.problems)
	}
	t.remoteState = peering.RemoteOf(in.Peering, in.Now)
	ordinal, replicas := peering.Place(in.Peering, t.Name)
	t.config = &config.Gateway{
		APIVersion: config.APIVersion, Kind: config.Kind, Cluster: string(in.Network.Status.ClusterID),
		Overlay: config.Overlay{
			Listen: in.Geneve, VXLANListen: in.VXLAN, MTU: int(in.Network.Spec.Overlay.MTU),
			Addresses:         t.addresses(t.peering(), "status.gateways", t.assigned.InternalAddresses),
			ExternalAddresses: t.addresses(t.peering(), "status.gateways", t.assigned.ExternalAddresses),
		},
		WireGuard: config.WireGuard{
			ListenPort: in.WireGuardPort, Ordinal: int(ordinal), Replicas: int(replicas), PrivateKeyFile: key,
		},
		Local:         t.local(),
		Remote:        config.Remote{Cluster: t.remoteCluster()},
		Observability: config.Observability{Listen: in.Observability},
	}
	t.config.WireGuard.Peers = t.peers()
	t.config.Remote.Prefixes = t.remote()
	t.config.Mappings = t.mappings()
	if t.WithoutNodes {
		t.config.Proxy, t.config.Callers = t.proxy(), t.callers()
		if len(t.config.Callers.Prefixes) > 0 { // else the CIDRs of the cluster are not known yet
			t.config.Forwards = t.forwards()
		}
	} else {
		t.config.Masquerade = t.masquerade()
		t.reserve()
		t.config.Overlay.Nodes = t.nodes(t.assigned.Number)
		t.pods()
	}
	if !t.removeInvalid() {
		t.config = nil
	}
	return t.config, sorted(t.problems)
}

// Withdrawn returns a configuration of the same gateway without nodes, peers and grants.
func Withdrawn(c *config.Gateway) *config.Gateway {
	w := *c
	w.Overlay.Nodes, w.Overlay.ExternalAddresses = nil, nil
	w.WireGuard.Peers = nil
	w.Local, w.Remote = config.Local{}, config.Remote{}
	w.Masquerade, w.Mappings = config.Masquerade{}, nil
	w.Proxy, w.Forwards, w.Callers = config.Proxy{}, nil, config.Callers{}
	return &w
}

type translation struct {
	Input
	assigned    *v1alpha1.GatewayStatus // of the gateway
	remoteState peering.Remote          // effective state of the remote cluster
	config      *config.Gateway
	problems    []Problem

	reserved ranges                    // prefixes that no pod may have an address in
	mapped   map[config.Mapping]string // names of AddressMappings

	forwarded map[config.ListenAddress]string // names of ReceivedServices
}

func (t *translation) problem(object, field, text, remedy string) {
	t.problems = append(t.problems, Problem{object, field, text, remedy})
}

// remoteCluster returns the ID of the remote cluster. While it is not known, the name of
// the Peering is used, if that is not this cluster's ID.
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

// key returns the file of the gateway's newest key that is not of an invite, "" if there is
// none.
func (t *translation) key() string {
	for _, k := range t.Keys {
		if k.Generation != invited {
			return k.File
		}
	}
	t.problem("gateway "+t.Name, "", "has no key yet", "check the log of Strait's controller for why it has not created Secrets named "+t.Name+"-key-1 and so on")
	return ""
}

// findAssigned returns the number and addresses that the controller assigned to the
// gateway, nil if they are incomplete.
func (t *translation) findAssigned() *v1alpha1.GatewayStatus {
	const wait = "check the log of Strait's controller for why they are missing"
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
		t.problem(t.peering(), "metadata.deletionTimestamp", "is being deleted", "no action is needed, or create it again after it is deleted")
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

// quote quotes a value of an object, truncated to fit a line.
func quote[T ~string](text T) string {
	const maxQuoted = 64
	s := string(text)
	if len(s) > maxQuoted {
		s = strings.ToValidUTF8(s[:maxQuoted], "") + "..."
	}
	return `"` + s + `"`
}
