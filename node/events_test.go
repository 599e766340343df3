package node

import (
	"slices"
	"testing"

	mdlayher "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Messages of the kernel, and some that it never sends: none makes the readers panic.
func FuzzEvents(f *testing.F) {
	route := make([]byte, unix.SizeofRtMsg)
	route[5] = routeProtocol
	link := append(make([]byte, unix.SizeofIfInfomsg), attributeOf(unix.IFLA_IFNAME, "cni-strait0123a\x00")...)
	f.Add(uint16(unix.RTM_NEWROUTE), route)
	f.Add(uint16(unix.RTM_NEWLINK), link)
	f.Add(uint16(unix.RTM_NEWNEIGH), []byte{2, 0, 0, 0, 7, 0, 0, 0})
	f.Add(uint16(rtmNewNetconf), append([]byte{2, 0, 0, 0}, attributeOf(netconfIfindex, "\x07\x00\x00\x00")...))
	f.Add(uint16(unix.NFT_MSG_NEWRULE), append([]byte{1, 0, 0, 0}, attributeOf(1, "strait\x00")...))
	e := &events{}
	e.links.Store(&map[string]int{"cni-strait0123a": 7})
	f.Fuzz(func(t *testing.T, kind uint16, data []byte) {
		m := mdlayher.Message{Header: mdlayher.Header{Type: mdlayher.HeaderType(kind)}, Data: data}
		before := slices.Clone(data)
		e.routing(m)
		filtering(m)
		isLoose(data)
		if !slices.Equal(before, data) {
			t.Error("the message was changed")
		}
	})
}

func attributeOf(kind uint16, value string) []byte {
	b, err := mdlayher.MarshalAttributes([]mdlayher.Attribute{{Type: kind, Data: []byte(value)}})
	if err != nil {
		panic(err)
	}
	return b
}

// Pods come and go on every node; that must not cause the helper to read the kernel.
func TestEventsOfOtherObjectsAreIgnored(t *testing.T) {
	t.Parallel()
	e := &events{}
	e.links.Store(&map[string]int{"cni-strait0123a": 7})
	routeOf := func(protocol byte) []byte {
		b := make([]byte, unix.SizeofRtMsg)
		b[5] = protocol
		return b
	}
	named := func(name string) []byte {
		return append(make([]byte, unix.SizeofIfInfomsg), attributeOf(unix.IFLA_IFNAME, name+"\x00")...)
	}
	for _, c := range []struct {
		name string
		kind uint16
		data []byte
		want bool
	}{
		{"a route of ours", unix.RTM_DELROUTE, routeOf(routeProtocol), true},
		{"a route of the kernel", unix.RTM_DELROUTE, routeOf(unix.RTPROT_KERNEL), false},
		{"a link of ours", unix.RTM_DELLINK, named("cni-strait0123a"), true},
		{"a link of another program", unix.RTM_NEWLINK, named("veth0123abcd"), false},
		{"Strait's link under another name", unix.RTM_NEWLINK, append([]byte{0, 0, 0, 0, 7, 0, 0, 0}, named("other")[8:]...), true},
		{"an address on our link", unix.RTM_DELADDR, []byte{2, 32, 0, 0, 7, 0, 0, 0}, true},
		{"an address on another link", unix.RTM_DELADDR, []byte{2, 32, 0, 0, 8, 0, 0, 0}, false},
		{"a neighbour on our link", unix.RTM_DELNEIGH, []byte{2, 0, 0, 0, 7, 0, 0, 0}, true},
		{"a neighbour on another link", unix.RTM_NEWNEIGH, []byte{2, 0, 0, 0, 8, 0, 0, 0}, false},
		{"any rule", unix.RTM_DELRULE, nil, true},
	} {
		if got := e.routing(mdlayher.Message{Header: mdlayher.Header{Type: mdlayher.HeaderType(c.kind)}, Data: c.data}); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
	for table, want := range map[string]bool{"strait\x00": true, "strait-b\x00": false, "kube-proxy\x00": false, "": false} {
		if got := filtering(mdlayher.Message{Data: append([]byte{1, 0, 0, 0}, attributeOf(1, table)...)}); got != want {
			t.Errorf("table %q: %t", table, got)
		}
	}
}

func TestMarksProveEveryRule(t *testing.T) {
	t.Parallel()
	whole := []string{mark("abc", 0, 3, ""), mark("abc", 1, 3, RefusedSource), mark("abc", 2, 3, "")}
	if got := readMarks(whole, "damaged"); got != "abc" {
		t.Errorf("whole: %q", got)
	}
	for name, marks := range map[string][]string{
		"none":          nil,
		"one missing":   whole[:2],
		"another order": {whole[1], whole[0], whole[2]},
		"one more":      append(slices.Clone(whole), ""),
		"two tables":    {whole[0], mark("abd", 1, 3, ""), whole[2]},
		"no marks":      {"", "", ""},
	} {
		if got := readMarks(marks, "damaged"); got != "damaged" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
