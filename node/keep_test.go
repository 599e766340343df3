//go:build lab

package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/test/wait"
)

func TestF9_F18_WhatOthersChangeComesBack(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		w.apply(t, w.desired())
		link := target(w.desired(), State{}).Links[0].Name
		damages := []string{
			"ip link del LINK",
			"ip link set LINK down",
			"ip link set LINK mtu 1000",
			"ip link set LINK address 02:00:00:00:00:01",
			"sysctl -w net.ipv4.conf.LINK.rp_filter=1",
			"ip addr flush dev LINK scope global",
			"ip -6 addr flush dev LINK scope global",
			"ip neigh del 10.80.0.1 dev LINK",
			"ip neigh replace 10.80.0.1 lladdr 02:00:00:00:00:01 dev LINK",
			"ip route del 10.71.0.0/16 metric 100 table 6091",
			"ip -6 route del fd00:71::/48 metric 100 table 6091",
			"ip nexthop flush protocol 91",
			fmt.Sprintf("ip nexthop del id %d", nexthopIDs|worldVNI),
			"ip route del blackhole 10.71.0.0/16 table 6091",
			"ip rule del pref 105",
			"ip -6 rule del pref 105",
			"nft delete table inet strait",
			"nft flush table inet strait",
			"nft flush chain inet strait keep",
			"nft insert rule inet strait postrouting accept",
			"nft flush ruleset",
		}
		if w.encapsulation == VXLAN {
			damages = append(damages,
				"bridge fdb del 0a:58:0a:50:00:01 dev LINK",
				"bridge fdb replace 0a:58:0a:50:00:01 dev LINK dst 192.0.2.99")
		}
		for _, damage := range damages {
			damage = strings.ReplaceAll(damage, "LINK", link)
			t.Run(damage, func(t *testing.T) {
				desired, reports := w.keep(t)
				desired <- w.desired()
				if r := <-reports; r.Err != nil || r.Repair || slices.ContainsFunc(r.Done, func(o Operation) bool { return !w.isRestart(o) }) {
					t.Fatalf("before: report %+v", r)
				}
				// The kernel deletes the nexthops of a TAP device without carrier in a worker, perhaps after the
				// keeper has read them. Then a repair follows.
				wait.Until(t, "the restart is complete", func() bool {
					left, _ := w.left(t, w.desired())
					return len(left) == 0
				})
				start := time.Now()
				command := strings.Fields(damage)
				w.node.Run(t, command[0], command[1:]...)
				// The command may take longer than the keeper waits after its first event. Then a
				// repair fails or is incomplete, and another follows.
				var done []Operation
				complete := false // the last repair
				wait.Until(t, "the damage is repaired: "+damage, func() bool {
					select {
					case r := <-reports:
						if r.Err != nil {
							t.Logf("while %s: %v", damage, r.Err)
						} else if !r.Repair {
							t.Errorf("report %+v", r)
						}
						done, complete = append(done, r.Done...), r.Err == nil
					default:
					}
					left, _ := w.left(t, w.desired())
					return complete && len(left) == 0
				})
				w.pod.Run(t, "ping", "-c1", "-W5", "10.71.2.9")
				t.Logf("%v: %s", time.Since(start).Round(time.Millisecond), strings.ReplaceAll(text(done), "\n", "; "))
			})
		}
	})
}

func TestF9_RepairsSlowDownInAFight(t *testing.T) {
	w := newWorld(t, Support{})
	desired, reports := w.keep(t)
	desired <- w.desired()
	<-reports
	for i := 1; ; i++ {
		w.node.IP(t, "rule del pref 105")
		r := <-reports
		if r.Err != nil || !r.Repair {
			t.Fatalf("report %+v", r)
		}
		if r.Fight {
			return
		}
		if i == repairBurst {
			t.Fatalf("%d repairs at once, without a limit", i)
		}
	}
}

func TestInvalidDesiredStateChangesNothing(t *testing.T) {
	w := newWorld(t, Support{})
	desired, reports := w.keep(t)
	desired <- w.desired()
	<-reports
	invalid := w.desired()
	invalid.Routes = append(invalid.Routes, Route{Prefix: prefixes("10.0.0.0/7")[0]})
	desired <- invalid
	if r := <-reports; r.Err == nil {
		t.Errorf("report %+v", r)
	}
	w.check(t, w.desired())
	w.pod.Run(t, "ping", "-c1", "-W5", "10.71.2.9")
}

func TestFailedOperationsAreRetried(t *testing.T) {
	w := newWorld(t, Support{})
	w.node.IP(t, fmt.Sprintf("link add obstacle type %s id %d remote 192.0.2.10 dstport %d", w.encapsulation, worldVNI, w.encapsulation.port()))
	desired, reports := w.keep(t)
	desired <- w.desired()
	if r := <-reports; r.Err == nil || !strings.Contains(r.Err.Error(), "remove the other link with that VNI and port") {
		t.Errorf("report %+v", r)
	}
	w.node.IP(t, "link del obstacle")
	for (<-reports).Err != nil {
	}
	w.check(t, w.desired())
	w.pod.Run(t, "ping", "-c1", "-W5", "10.71.2.9")
}
