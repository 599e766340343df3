//go:build lab

package node

import (
	"slices"
	"strings"
	"testing"
)

func TestInventoryListsOwnAndForeignObjects(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		w.apply(t, w.desired())
		var s Inventory
		must(t, w.node.In(func() (err error) { s, err = ReadInventory(); return err }))
		ours := slices.IndexFunc(s.Links, func(l InventoryLink) bool { return strings.HasPrefix(l.Name, LinkPrefix) })
		if ours < 0 || !s.Links[ours].Up || len(s.Links[ours].Addresses) == 0 {
			t.Fatalf("links %+v", s.Links)
		}
		device := " dev " + s.Links[ours].Name
		if !slices.ContainsFunc(s.Routes, func(r string) bool { return strings.Contains(r, device) && strings.Contains(r, " table 6091 proto 91") }) {
			t.Errorf("routes %q", s.Routes)
		}
		if !slices.ContainsFunc(s.Rules, func(r string) bool { return strings.HasPrefix(r, "105: from all lookup 6091") }) {
			t.Errorf("rules %q", s.Rules)
		}
		if s.Sources != SourcesKept || !slices.Contains(s.Tables, "inet strait") {
			t.Errorf("sources are %s, tables %q", s.Sources, s.Tables)
		}
		if s.Settings["net.ipv4.ip_forward"] == "" || s.Kernel == "" || len(s.Missing) > 0 {
			t.Errorf("settings %v, kernel %q, missing %q", s.Settings, s.Kernel, s.Missing)
		}
	})
}
