package node

import (
	"slices"
	"testing"
)

// Reading generic netlink needs no privilege.
func TestAnInventoryHasFamiliesAndOffloads(t *testing.T) {
	t.Parallel()
	s, err := ReadInventory()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.Families, "nlctrl") {
		t.Errorf("families %q lack nlctrl", s.Families)
	}
	lo := slices.IndexFunc(s.Links, func(l InventoryLink) bool { return l.Name == "lo" })
	if lo < 0 {
		t.Fatalf("no lo among the links %+v", s.Links)
	}
	_, known := s.Links[lo].Offloads["rx-gro"]
	if known != slices.Contains(s.Families, "ethtool") {
		t.Errorf("the kernel's families are %q, and the offloads of lo are %v", s.Families, s.Links[lo].Offloads)
	}
}
