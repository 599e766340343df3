//go:build lab

package node

import (
	"testing"
)

func TestFindWayMatchesThePathOfPackets(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		w.apply(t, w.desired())
		for _, c := range []struct{ to, from, via, internal, prefix string }{
			{"10.71.2.9", "10.0.1.5", "10.80.0.1", "10.80.0.11", "10.71.0.0/16"},
			{"fd00:71::9", "fd00:10:0:1::5", "fd00:80::1", "fd00:80::11", "fd00:71::/48"},
		} {
			way := w.way(t, c.to, c.from)
			if way.Refused != "" || way.Input != "pod0" || way.Via.String() != c.via || way.Range.String() != c.prefix || way.Blackhole || !way.Rule || way.MTU != 1400 || way.Table != routeTable || way.Sources != SourcesKept {
				t.Errorf("%+v", way)
			}
			o := way.Overlay
			if o == nil || !o.Up || o.Encapsulation != w.encapsulation {
				t.Fatalf("%+v, overlay %+v", way, o)
			}
			if known := w.encapsulation != Userspace; known != (o.VNI == worldVNI) || known != (o.Gateway.String() == "192.0.2.10") || known != (o.Source.String() == "192.0.2.21") {
				t.Errorf("overlay %+v", o)
			}
			if own := w.way(t, c.to, ""); own.Source.String() != c.internal || own.Overlay == nil || own.Input != "" {
				t.Errorf("of the node itself: %+v", own)
			}
			if own := w.way(t, c.to, c.internal); own.Source.String() != c.internal || own.Input != "" {
				t.Errorf("of an address of the node: %+v", own)
			}
		}
		if back := w.way(t, "10.0.1.5", "10.71.2.9"); back.Device != "pod0" || back.Input == "" || back.Overlay != nil || back.Refused != "" {
			t.Errorf("back to the pod: %+v", back)
		}
		if local := w.way(t, "10.80.0.11", ""); !local.Local {
			t.Errorf("to the node: %+v", local)
		}
	})
}

func TestFindWayReportsFaultsOfTheNode(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		if way := w.way(t, "10.71.2.9", "10.0.1.5"); way.Device != "gw0" || way.Overlay != nil || way.Rule || way.Range.IsValid() || way.Sources != SourcesMissing {
			t.Errorf("before Strait set up anything: %+v", way)
		}
		d := w.desired()
		d.Routes[0].Group = ""
		w.apply(t, d)
		if way := w.way(t, "10.71.2.9", "10.0.1.5"); way.Refused == "" || !way.Blackhole || way.Range.String() != "10.71.0.0/16" {
			t.Errorf("a CIDR that no gateway serves: %+v", way)
		}
		w.apply(t, w.desired())
		w.node.Run(t, "nft", "flush", "chain", "inet", "strait", "keep")
		if way := w.way(t, "10.71.2.9", "10.0.1.5"); way.Sources != SourcesDamaged || way.Overlay == nil {
			t.Errorf("a changed table: %+v", way)
		}
		w.node.Run(t, "ip", "rule", "del", "priority", "105")
		if way := w.way(t, "10.71.2.9", "10.0.1.5"); way.Rule || way.Overlay != nil || !way.Range.IsValid() {
			t.Errorf("without the rule: %+v", way)
		}
	})
}
