package rig

import (
	"fmt"
	"strings"

	"strait.dev/strait/internal/netns"
)

// Custom is a subject provided by the user: a command that starts a pair of gateways and
// keeps them running until it gets SIGTERM. It runs as root, outside all namespaces;
// everything that it starts is accounted to the gateways. The nodes are configured like
// those of strait: a tunnel device of the kernel towards the gateway's underlay address,
// and a route for the other cluster's prefix. Its environment contains everything else, see
// Variables.
type Custom struct {
	Name    string
	Command string // for sh -c
}

// ParseCustomSubject parses NAME=COMMAND.
func ParseCustomSubject(text string) (Custom, error) {
	name, command, ok := strings.Cut(text, "=")
	if !ok || name == "" || command == "" || strings.ContainsAny(name, " \t/") {
		return Custom{}, fmt.Errorf("%q is not a subject: write NAME=COMMAND, for instance mine=./gateways.sh", text)
	}
	return Custom{name, command}, nil
}

// Variables documents the environment of a custom subject's command. Each variable exists
// for A and for B, as its last letter states.
var Variables = [][2]string{
	{"RIG_GATEWAY_A", "network namespace of the gateway, by its name in `ip netns`"},
	{"RIG_NODE_A", "network namespace of the node"},
	{"RIG_UNDERLAY_A", "the gateway's address towards the node, on device node"},
	{"RIG_NODE_UNDERLAY_A", "the node's address towards the gateway, on device gw"},
	{"RIG_WAN_A", "the gateway's address towards the other gateway, on device wan"},
	{"RIG_INTERNAL_A", "the gateway's address inside the overlay"},
	{"RIG_NODE_INTERNAL_A", "the node's address inside the overlay; MAC addresses are 0a:58 and its four bytes"},
	{"RIG_PODS_A", "the pods behind the node"},
	{"RIG_SEEN_AS_A", "the CIDR to which the other cluster maps 10.0.0.0/16 of this one"},
	{"RIG_ENCAPSULATION_A", "geneve or vxlan"},
	{"RIG_PORT_A", "UDP port of the overlay"},
	{"RIG_VNI_A", "virtual network identifier of the node"},
}

func customSubject(s Custom) *Subject {
	return &Subject{
		Name: s.Name, translated: true,
		up: func(r *Rig, t *topology) error {
			encapsulation := t.a.node.Encapsulation()
			if err := t.each(func(s, other *site) error {
				if err := s.joinNode(encapsulation, false); err != nil {
					return err
				}
				return s.routeNode(other.seenAs)
			}); err != nil {
				return err
			}
			p, err := start("custom-"+s.Name, func(f func() error) error { return f() }, t.gateways, r.dir, customEnvironment(t, encapsulation), nil, "sh", "-c", s.Command)
			if err == nil {
				t.processes = []*process{p}
			}
			return err
		},
	}
}

// customEnvironment returns the environment that Variables documents.
func customEnvironment(t *topology, encapsulation string) (env []string) {
	for _, s := range t.sites() {
		values := []any{
			s.gw.Name, s.node.Name, s.gwUnderlay[0], s.nodeUnderlay[0], s.wan[0], gwInternal[0], nodeInternal[0],
			s.NodePods[0], s.seenAs[0], encapsulation, netns.TunnelPorts[encapsulation], vni,
		}
		for i, v := range Variables {
			env = append(env, fmt.Sprintf("%s%s=%v", strings.TrimSuffix(v[0], "A"), strings.ToUpper(s.Name), values[i]))
		}
	}
	return env
}
