//go:build lab

package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/test/netns"
)

// inspect inspects a node from within its namespace.
func inspect(t *testing.T, k *Kernel, n *netns.Namespace) (s Inspection) {
	t.Helper()
	must(t, n.In(func() (err error) { s, err = k.Inspect(); return err }))
	return s
}

func TestInspectReportsOwnObjectsAndLeavesNothing(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		before := inspect(t, w.kernel, w.node)
		if len(before.Ours.Links)+len(before.Ours.Routes)+len(before.Ours.Rules) > 0 || before.Ours.Table || len(before.Strange)+len(before.Taken) > 0 {
			t.Errorf("before Strait: %+v", before)
		}
		if before.Tables != "" || !before.IPv6 || before.Out.Link != "gw0" || before.Out.MTU != 1500 || before.Out6.Link != "gw0" || before.Kernel == "" {
			t.Errorf("the node: %+v", before)
		}
		if before.Settings["net.ipv4.conf.all.rp_filter"] != 1 || before.Settings["net.ipv4.ip_forward"] != 1 {
			t.Errorf("settings %v", before.Settings)
		}
		if text := fmt.Sprint(before.Destinations); !strings.Contains(text, "{10.0.1.0/24 route to 10.0.1.0/24 dev pod0 table 254}") || strings.Contains(text, "0.0.0.0/0") {
			t.Errorf("destinations of the node: %s", text)
		}
		w.apply(t, w.desired())
		s := inspect(t, w.kernel, w.node)
		if len(s.Ours.Links) != 1 || len(s.Ours.Routes) == 0 || len(s.Ours.Rules) != 2 || !s.Ours.Table || len(s.Strange) > 0 || !slices.Equal(s.Destinations, before.Destinations) {
			t.Errorf("with Strait's configuration: %+v", s)
		}
		must(t, w.kernel.Remove())
		if tables := w.node.Run(t, "nft", "list", "tables"); strings.Contains(tables, "strait") {
			t.Errorf("it left tables:\n%s", tables)
		}
	})
}

func TestInspectReportsConflicts(t *testing.T) {
	n := netns.New(t)
	n.IP(t, `
link set lo up
link add other type vxlan id 7 local 127.0.0.1 dstport 6092
link set other up
link add cni-strait-old type veth peer name peer
route add 198.51.100.0/24 dev lo table 6091
rule add pref 105 lookup 200
`)
	k := openIn(t, n)
	s := inspect(t, k, n)
	for _, want := range []string{
		"link other (vxlan) uses UDP port 6092", "table 6091 has a route to 198.51.100.0/24 of protocol 3", "a rule of priority 105 looks up table 200",
	} {
		if !slices.Contains(s.Strange, want) {
			t.Errorf("%q lacks %q", s.Strange, want)
		}
	}
	if !slices.Equal(s.Ours.Links, []string{"cni-strait-old"}) {
		t.Errorf("links %q", s.Ours.Links)
	}
	if len(s.Taken) != 1 || s.Taken[0].Number != 6092 {
		t.Errorf("ports %v, want 6092", s.Taken)
	}
}

func TestInspectReportsAPortThatIsInUseForIPv6Only(t *testing.T) {
	n := netns.New(t)
	n.IP(t, `
link set lo up
link add other type vxlan id 7 local ::1 dstport 6092
link set other up
`)
	if s := inspect(t, openIn(t, n), n); len(s.Taken) != 1 || s.Taken[0].Number != 6092 {
		t.Errorf("ports %v, want 6092", s.Taken)
	}
}
