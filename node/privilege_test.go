//go:build lab

package node

import (
	"os"
	"os/exec"
	"testing"
)

// child is set to the encapsulation in the process that TestNetAdminIsEnough starts.
const child = "STRAIT_NODE_TEST_CHILD"

// The complete cycle in a process that has no other capability.
func TestNetAdminIsEnough(t *testing.T) {
	if e := os.Getenv(child); e != "" {
		withoutPrivileges(t, Encapsulation(e))
		return
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("setpriv is not installed; run: apt-get install -y util-linux")
	}
	inEachWorld(t, func(t *testing.T, w *world) {
		answerProbes(t, w.gateway)
		t.Log(w.node.Run(t, "env", child+"="+string(w.encapsulation), "setpriv", "--no-new-privs",
			"--bounding-set=-all,+net_admin", "--inh-caps=-all", os.Args[0], "-test.run=^TestNetAdminIsEnough$", "-test.v"))
	})
}

func withoutPrivileges(t *testing.T, e Encapsulation) {
	if out, err := exec.Command("ping", "-c1", "127.0.0.1").CombinedOutput(); err == nil {
		t.Fatalf("the process has CAP_NET_RAW, so this test proves nothing:\n%s", out)
	}
	k, err := Open()
	must(t, err)
	defer k.Close()
	_, err = k.Support()
	must(t, err)
	w := &world{kernel: k, encapsulation: e}
	w.apply(t, w.desired())
	must(t, k.events.listen())
	p, err := NewProber()
	must(t, err)
	defer p.Close()
	for _, to := range addrs("10.80.0.1", "fd00:80::1") {
		if _, err := ask(t, p, to, patience); err != nil {
			t.Error(err)
		}
	}
	must(t, k.Remove())
}
