//go:build lab

package node

import (
	"slices"
	"testing"

	"strait.dev/strait/node/genl"
	"strait.dev/strait/test/netns"
)

func TestAnInspectionHasTheOffloadsOfTheLinkToElsewhere(t *testing.T) {
	n := netns.New(t)
	n.IP(t, `
link add out type veth peer name peer
link set peer up
link set out up
addr add 192.168.7.2/24 dev out
route add default via 192.168.7.1
`)
	k := openIn(t, n)
	for _, on := range []bool{true, false} {
		must(t, n.In(func() error {
			c, err := genl.Open()
			if err != nil {
				return err
			}
			defer c.Close()
			return c.SetFeatures("out", map[string]bool{"rx-gro": on})
		}))
		s := inspect(t, k, n)
		if got, known := s.Out.Offloads["rx-gro"]; s.Out.Link != "out" || !known || got != on {
			t.Errorf("GRO is %v on link out; the inspection is %+v", on, s.Out)
		}
		if !slices.Contains(s.Families, "ethtool") || s.Out6.Offloads != nil {
			t.Errorf("families %q, offloads without a route %v", s.Families, s.Out6.Offloads)
		}
	}
}
