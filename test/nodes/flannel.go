package nodes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// CNI is the network plugin of a cluster.
type CNI string

const (
	// Bridge is a bridge on each node, with static routes between nodes.
	Bridge CNI = ""
	// FlannelVXLAN is Flannel with its default backend.
	FlannelVXLAN CNI = "vxlan"
	// FlannelHostGW is Flannel with routes through nodes, without encapsulation.
	FlannelHostGW CNI = "host-gw"
)

// startFlannel starts the node's flanneld with its default settings, as a program of the
// node like in k3s, and configures the bridge plugin as Flannel's own plugin does. It
// returns when pods of the node can have networks.
func (n *node) startFlannel() error {
	config := fmt.Sprintf(`{"EnableIPv4": %t, "Network": "%s", "EnableIPv6": %t, "IPv6Network": "%s", "Backend": {"Type": "%s"}}`,
		slices.Contains(n.c.families, ipv4), ipv4.podCIDR(n.c.pods), slices.Contains(n.c.families, ipv6), ipv6.podCIDR(n.c.pods), n.c.cni)
	if err := os.WriteFile(n.file("net-conf.json"), []byte(config), 0o600); err != nil {
		return err
	}
	access, err := n.c.access("flannel-"+n.name, "system:masters")
	if err != nil {
		return err
	}
	subnet := n.file("subnet.env")
	flanneld, err := n.daemon("flanneld", "--kube-subnet-mgr", "--ip-masq", "--kubeconfig-file="+access,
		"--net-config-path="+n.file("net-conf.json"), "--subnet-file="+subnet)
	if err != nil {
		return err
	}
	return until(n.c.lab.ctx, flanneld, "Flannel of "+n.name+" is ready", func(context.Context) error {
		mtu, err := flannelMTU(subnet)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(n.file("cni"), cniFile), []byte(n.cniSettings(mtu)), 0o600)
	})
}

// flannelMTU reads the MTU of pods from the file that flanneld writes.
func flannelMTU(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "FLANNEL_MTU="); ok {
			return strconv.Atoi(value)
		}
	}
	return 0, fmt.Errorf("%s has no FLANNEL_MTU", file)
}
