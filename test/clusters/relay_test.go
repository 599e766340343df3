package clusters

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"strait.dev/strait/test/netns"
)

// relay lets processes in a namespace reach an API server, which listens on loopback
// outside: on the same address inside, so that its certificate fits. Sockets stay in the
// namespace that they were made in.
func relay(t *testing.T, n *netns.Namespace, host string) {
	t.Helper()
	address := strings.TrimPrefix(host, "https://")
	var inside net.Listener
	must(t, n.In(func() (err error) {
		inside, err = net.Listen("tcp", address)
		return err
	}))
	var open sync.WaitGroup
	open.Go(func() {
		for {
			from, err := inside.Accept()
			if err != nil {
				return // closed
			}
			to, err := net.Dial("tcp", address)
			if err != nil {
				from.Close() // as the kernel would refuse it
				continue
			}
			stop := func() { from.Close(); to.Close() }
			open.Go(func() { defer stop(); io.Copy(to, from) })
			open.Go(func() { defer stop(); io.Copy(from, to) })
			t.Cleanup(stop)
		}
	})
	t.Cleanup(func() { inside.Close(); go open.Wait() })
}
