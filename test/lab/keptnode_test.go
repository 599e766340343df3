//go:build lab || nightly

package lab

import (
	"context"
	"testing"

	"strait.dev/strait/node"
)

// keepNode configures the kernel of a site's node as the node helper does, and repairs it until the test
// ends. The remote cluster may answer the node, and open no connections to it.
func keepNode(t *testing.T, s *site) *node.Kernel {
	t.Helper()
	s.node.ip(t, "link del strait0")
	var kernel *node.Kernel
	if err := s.node.in(func() (err error) { kernel, err = node.Open(); return err }); err != nil {
		t.Fatal(err)
	}
	d := node.Desired{
		Addresses: nodeInternal, Pods: podCIDRs, LocalPods: prefixes(s.podNet4.String(), s.podNet6.String()),
		Gateways: []node.Gateway{{
			Name: "b-0", Underlay: s.underlay, Addresses: gatewayInternal, VNI: vni, MTU: 1400,
			Encapsulation: map[string]node.Encapsulation{"geneve": node.Geneve, "vxlan": node.VXLAN}[s.encapsulation],
		}},
		Groups: []node.Group{{Name: "b", Gateways: []string{"b-0"}, MTU: 1400}},
	}
	for _, r := range s.remote {
		d.Gateways[0].Remote = append(d.Gateways[0].Remote, r.SeenAs)
		d.Routes = append(d.Routes, node.Route{Prefix: r.SeenAs, Group: "b"})
	}
	desired, reports, ended := make(chan node.Desired), make(chan node.Report, 100), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- kernel.Keep(ctx, desired, func(r node.Report) { reports <- r }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		kernel.Close()
	})
	desired <- d
	if r := <-reports; r.Err != nil {
		t.Fatal(r.Err)
	}
	return kernel
}
