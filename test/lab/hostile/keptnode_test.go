//go:build lab || nightly

package hostile

import (
	"context"
	"testing"

	"strait.dev/strait/node"
	"strait.dev/strait/test/lab"
)

// keepNode configures the kernel of a site's node as the node helper does, and repairs it until the test
// ends. The remote cluster may answer the node, and open no connections to it.
func keepNode(t *testing.T, s *lab.Site) *node.Kernel {
	t.Helper()
	s.Node.IP(t, "link del strait0")
	var kernel *node.Kernel
	if err := s.Node.In(func() (err error) { kernel, err = node.Open(); return err }); err != nil {
		t.Fatal(err)
	}
	d := node.Desired{
		Addresses: lab.NodeInternal, Pods: lab.PodCIDRs, LocalPods: lab.Prefixes(s.PodNet4.String(), s.PodNet6.String()),
		Gateways: []node.Gateway{{
			Name: "b-0", Underlay: s.Underlay, Addresses: lab.GatewayInternal, VNI: lab.VNI, MTU: 1400,
			Encapsulation: map[string]node.Encapsulation{"geneve": node.Geneve, "vxlan": node.VXLAN}[s.Encapsulation],
		}},
		Groups: []node.Group{{Name: "b", Gateways: []string{"b-0"}, MTU: 1400}},
	}
	for _, r := range s.Remote {
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
