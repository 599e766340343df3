package genl

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func open(t *testing.T) *Conn {
	t.Helper()
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Every kernel has the family that lists families.
func TestFamiliesOfTheKernel(t *testing.T) {
	t.Parallel()
	c := open(t)
	names, err := c.Families()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(names, "nlctrl") || !slices.IsSorted(names) {
		t.Errorf("the kernel's families are %v, want sorted names with nlctrl", names)
	}
	for _, name := range names {
		if has, err := c.Has(name); !has || err != nil {
			t.Errorf("the kernel lists the family %s, but Has returns %v, %v", name, has, err)
		}
	}
	if has, err := c.Has("strait-absent"); has || err != nil {
		t.Errorf("Has of an unknown family returns %v, %v", has, err)
	}
}

func TestFeaturesOfTheLoopbackDevice(t *testing.T) {
	t.Parallel()
	c := open(t)
	if has, err := c.Has(unix.ETHTOOL_GENL_NAME); err != nil || !has {
		t.Skipf("this kernel has no generic netlink family ethtool (%v)", err)
	}
	features, err := c.Features("lo")
	if err != nil {
		t.Fatal(err)
	}
	// Loopback has the feature "loopback", fixed to on, and no hardware for TLS.
	for name, want := range map[string]bool{"loopback": true, "tls-hw-record": false} {
		if on, known := features[name]; !known || on != want {
			t.Errorf("feature %s of lo: known %v, on %v, want known and %v", name, known, on, want)
		}
	}
	if got, err := c.Features("strait-absent"); err == nil {
		t.Errorf("features of a device that does not exist: %v", got)
	}
}
