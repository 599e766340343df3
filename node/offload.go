//go:build linux

package node

import (
	"errors"

	"golang.org/x/sys/unix"

	"strait.dev/strait/node/genl"
)

// offloads are the features of a link that determine the cost of UDP between nodes and
// gateways, by their ethtool(8) names.
var offloads = []string{
	"rx-gro", "rx-gro-list", "rx-udp-gro-forwarding", "tx-udp-segmentation", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation",
}

// readOffloads returns which offloads of a link are on; nil: the kernel does not report them.
func readOffloads(c *genl.Conn, link string) (map[string]bool, error) {
	features, err := c.Features(link)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool)
	for _, name := range offloads {
		if on, is := features[name]; is {
			known[name] = on
		}
	}
	return known, nil
}
