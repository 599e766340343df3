package ports

import (
	"net"
	"slices"
	"testing"
)

func TestPortsInUseAreNotGiven(t *testing.T) {
	given := Free(t, 50)
	more := Free(t, 50)
	all := slices.Concat(given, more)
	slices.Sort(all)
	if len(slices.Compact(all)) != 100 {
		t.Errorf("%v and %v", given, more)
	}
	if claim(t, int(given[0])) {
		t.Error("a port of another test is given again")
	}
	u, err := net.ListenPacket("udp", Address(t))
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	l, err := net.Listen("tcp", Address(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, used := range []int{u.LocalAddr().(*net.UDPAddr).Port, l.Addr().(*net.TCPAddr).Port} {
		if free(used) {
			t.Errorf("%d is in use, but was reported as free", used)
		}
	}
}

func TestPortIsReleasedWhenItsTestEnds(t *testing.T) {
	var port uint16
	t.Run("one", func(t *testing.T) { port = Free(t, 1)[0] })
	if !claim(t, int(port)) {
		t.Errorf("%d is still reserved", port)
	}
}
