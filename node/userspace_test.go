//go:build lab

package node

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/test/wait"
)

func TestF9_ADeletedTAPDeviceComesBack(t *testing.T) {
	w := userspaceWorld(t)
	desired, reports := w.keep(t)
	desired <- w.desired()
	<-reports
	w.pod.Run(t, "ping", "-c1", "-W5", "10.71.2.9")
	w.node.IP(t, "link del "+target(w.desired(), State{}).Links[0].Name)
	<-reports
	w.pod.Run(t, "ping", "-c1", "-W5", "10.71.2.9")
}

// A device that replaced Strait's is replaced in turn, however similar it is.
func TestADeviceLikeOursIsReplaced(t *testing.T) {
	for _, other := range []string{
		"link add LINK type veth peer name other",
		"tuntap add LINK mode tun",
		"tuntap add LINK mode tap multi_queue",
		"tuntap add LINK mode tap vnet_hdr",
		"tuntap add LINK mode tap",
	} {
		t.Run(other, func(t *testing.T) {
			w := userspaceWorld(t)
			link := target(w.desired(), State{}).Links[0].Name
			w.apply(t, w.desired())
			w.node.IP(t, "link del "+link+"\n"+strings.ReplaceAll(other, "LINK", link))
			w.apply(t, w.desired())
			w.pod.Run(t, "ping", "-c1", "-W5", "10.71.2.9")
		})
	}
}

// The device stays while no process serves it. The kernel deletes its nexthops, because it has
// no carrier: packets sent meanwhile meet the blackhole and take no other route.
func TestF3_ARestartKeepsTheTAPDevice(t *testing.T) {
	w := userspaceWorld(t)
	w.apply(t, w.desired())
	w.pod.Run(t, "ping", "-c1", "-W5", "10.71.2.9")
	name := target(w.desired(), State{}).Links[0].Name
	before := w.kernel.links[name]

	w.kernel.Close()
	if device := w.node.Run(t, "ip", "-d", "link", "show", name); !strings.Contains(device, "user root") {
		t.Errorf("any user may serve the device:\n%s", device)
	}
	if out, err := w.pod.Try("ping", "-c1", "-W0.3", "10.71.2.9"); err == nil {
		t.Errorf("answered while no process serves the device:\n%s", out)
	}
	if routes := w.node.Run(t, "ip", "route", "show", "table", "6091"); !strings.Contains(routes, "blackhole 10.71.0.0/16 ") {
		t.Errorf("the blackhole is missing:\n%s", routes)
	}

	w.kernel = openIn(t, w.node)
	observed, err := w.kernel.Observe()
	must(t, err)
	plan := Plan(w.desired(), observed)
	if len(plan) == 0 || slices.ContainsFunc(plan, func(o Operation) bool { return !w.isRestart(o) }) {
		t.Errorf("the next process runs:\n%s", text(plan))
	}
	w.apply(t, w.desired())
	w.answers(t)
	if after := w.kernel.links[name]; after != before {
		t.Errorf("device %d became %d", before, after)
	}
}

func TestTwoProcessesDoNotServeOneDevice(t *testing.T) {
	w := userspaceWorld(t)
	w.apply(t, w.desired())
	other := openIn(t, w.node)
	_, _, err := other.achieve(w.desired())
	if err == nil || !strings.Contains(err.Error(), "another socket holds the port") {
		t.Errorf("the second process got %v", err)
	}
	w.pod.Run(t, "ping", "-c1", "-W5", "10.71.2.9")
	w.kernel.userspace.Close()
	_, _, err = other.achieve(w.desired())
	must(t, err)
	w.answers(t)
}

// answers waits until the other cluster answers: the kernel sends nothing for a moment
// after a device is served again.
func (w *world) answers(t *testing.T) {
	t.Helper()
	wait.Until(t, "10.71.2.9 answers a ping", func() bool {
		_, err := w.pod.Try("ping", "-c1", "-W0.2", "10.71.2.9")
		return err == nil
	})
}

func TestPacketsOfAnySizeFitTheMTU(t *testing.T) {
	w := userspaceWorld(t)
	w.apply(t, w.desired())
	w.pod.Run(t, "ping", "-c1", "-W5", "-Mdo", "-s1372", "10.71.2.9")
	if out, err := w.pod.Try("ping", "-c1", "-W1", "-Mdo", "-s1373", "10.71.2.9"); err == nil || !strings.Contains(out, "mtu = 1400") && !strings.Contains(out, "mtu=1400") {
		t.Errorf("a packet of 1401 bytes: %v\n%s", err, out)
	}
	w.pod.Run(t, "ping", "-c1", "-W5", "-Mdont", "-s3000", "10.71.2.9")
	w.transfer(t, "10.71.2.9:7001", 4<<20)
	w.transfer(t, "[fd00:71::9]:7001", 4<<20)
}

// transfer sends bytes over TCP from the pod to the gateway; the node's kernel could leave
// segmentation and checksums to a capable device.
func (w *world) transfer(t *testing.T, to string, bytes int) {
	t.Helper()
	var listener net.Listener
	must(t, w.gateway.In(func() (err error) {
		listener, err = net.Listen("tcp", to)
		return err
	}))
	received := make(chan int, 1)
	go func() {
		total := 0
		if conn, err := listener.Accept(); err == nil {
			buffer := make([]byte, 1<<16)
			for {
				n, err := conn.Read(buffer)
				total += n
				if err != nil {
					break
				}
			}
			_ = conn.Close() // everything was read
		}
		received <- total
	}()
	var conn net.Conn
	must(t, w.pod.In(func() (err error) {
		conn, err = net.Dial("tcp", to)
		return err
	}))
	_, err := conn.Write(make([]byte, bytes))
	must(t, err)
	must(t, conn.Close())
	if n := <-received; n != bytes {
		t.Errorf("%d of %d bytes arrived at %s", n, bytes, to)
	}
	_ = listener.Close() // no accept is pending
}

func TestFramesOfUnknownSourcesAreDroppedAndCounted(t *testing.T) {
	w := userspaceWorld(t)
	d := w.desired()
	d.Gateways[0].VNI++ // the gateway's frames use another VNI
	w.apply(t, d)
	if _, err := w.gateway.Try("ping", "-c1", "-W0.3", "10.80.0.11"); err == nil {
		t.Error("frames with another VNI are accepted")
	}
	d = w.desired()
	d.Gateways[0].Underlay = netip.MustParseAddr("192.0.2.12")
	w.apply(t, d)
	if _, err := w.gateway.Try("ping", "-c1", "-W0.3", "10.80.0.11"); err == nil {
		t.Error("frames from another address are accepted")
	}
	counted, err := w.kernel.Refused()
	must(t, err)
	if counted[Refused{chainFrames, RefusedFrame}] < 2 {
		t.Errorf("counted %v", counted)
	}
	w.node.Run(t, "nft", "delete", "table", "inet", tableName) // the process that serves the device compares, too
	if _, err := w.gateway.Try("ping", "-c1", "-W0.3", "10.80.0.11"); err == nil {
		t.Error("without the table, frames from another address are accepted")
	}
	if dropped := w.kernel.Dropped(); dropped["unknown_source"] == 0 {
		t.Errorf("dropped %v", dropped)
	}
}
