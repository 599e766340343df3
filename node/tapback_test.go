//go:build nightly

package node

import (
	"testing"
	"time"
)

func TestF9_ADeletedTAPDeviceIsBackWithinTwoSeconds(t *testing.T) {
	w := userspaceWorld(t)
	desired, reports := w.keep(t)
	desired <- w.desired()
	<-reports
	w.pod.Run(t, "ping", "-c1", "-W5", "10.71.2.9")
	start := time.Now()
	w.node.IP(t, "link del "+target(w.desired(), State{}).Links[0].Name)
	<-reports
	w.pod.Run(t, "ping", "-c1", "-W5", "10.71.2.9")
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}
