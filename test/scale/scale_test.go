//go:build nightly

package scale

import (
	"fmt"
	"os"
	"testing"
	"time"

	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/program"
)

func TestMain(m *testing.M) {
	code := kube.Main(m)
	program.Remove()
	os.Exit(code)
}

func TestF23_OneGatewayFollowsAllPodsOfALargeCluster(t *testing.T) {
	size := sizeFromEnvironment(t)
	t.Cleanup(func() {
		if t.Skipped() && size.bounds {
			t.Error("nothing was measured")
		}
	})
	w := newWorld(t, size)
	var r results

	r.nodes = w.timed("%d nodes", w.nodes)(func() { w.createNodes(t) })
	controller := w.startController(t)
	r.attachments = w.timed("the controller creates all attachments")(func() { w.awaitAttachments(t) })
	w.peer(t)
	far := w.startRemote(t)
	r.pods = w.timed("%d pods, every %dth outside of its node's CIDR", w.pods, outsideShare)(func() { w.createPods(t) })

	gateway := w.startGateway(t)
	r.listed = w.timed("the gateway starts")(func() { w.awaitGateway(t) })
	r.gatewayStart = gateway.usage(t)
	helper := w.startHelper(t)
	w.timed("the helper connects its node")(func() { w.awaitHelper(t) })
	r.helperStart = helper.usage(t)
	w.timed("packets reach pods")(func() { w.spotCheck(t) })

	w.settle()
	r.rest = w.during(t, "nothing changes", []watched{controller, gateway, helper}, func() { time.Sleep(w.span()) })
	r.churn = w.during(t, fmt.Sprintf("%d changes a second", w.rate), []watched{controller, gateway, helper}, func() { r.changes = w.churn(t) })

	r.far = far.usage(t)

	rows := r.rows(w.size)
	fmt.Fprint(t.Output(), "\n", table(rows), "\n")
	r.check(t, w.size, rows)
}

// settle waits until programs have written their statuses, which takes up to 10 s.
func (w *world) settle() {
	const told = 15 * time.Second
	w.say("waiting for statuses")
	time.Sleep(min(told, w.span()))
}

// timed prints what happens and how long it took.
func (w *world) timed(format string, args ...any) func(do func()) time.Duration {
	what := fmt.Sprintf(format, args...)
	return func(do func()) time.Duration {
		begun := time.Now()
		do()
		took := time.Since(begun)
		w.say("%s: %v", what, took.Round(10*time.Millisecond))
		return took
	}
}
