package node

import (
	"slices"
	"testing"
)

// It takes no privilege to read what the kernel says over generic netlink.
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
		t.Errorf("the kernel's families are %q, and it tells of lo %v", s.Families, s.Links[lo].Offloads)
	}
}
