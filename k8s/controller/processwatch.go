package controller

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/install"
)

// processWatch finds out at once that the process of a gateway has ended, by a TCP connection to its HTTP port: the kernel
// that ran the process closes it and refuses another. The kubelet reports the end 1 to 3 s later, and without node helpers
// clients connect to the gateway until then. A gateway that cannot be reached is not judged: the cause may be a NetworkPolicy,
// or this end. Safe for concurrent use.
type processWatch struct {
	connect func(ctx context.Context, address string) (net.Conn, error)
	changed func() // a process has ended
	running sync.WaitGroup

	mu      sync.Mutex
	watched map[types.UID]*watchedProcess // by pod; protected by mu
}

type watchedProcess struct {
	address  string // host:port
	stop     context.CancelFunc
	restarts int32 // of the container, that the kubelet has reported
	ended    bool  // since then
}

const reconnect = 250 * time.Millisecond

func newProcessWatch(connect func(ctx context.Context, address string) (net.Conn, error), changed func()) *processWatch {
	return &processWatch{connect: connect, changed: changed, watched: make(map[types.UID]*watchedProcess)}
}

// follow watches the processes of these pods, and no others, until ctx ends.
func (w *processWatch) follow(ctx context.Context, pods gatewayPods) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := make(map[types.UID]bool)
	for _, pod := range pods {
		if len(pod.Status.PodIPs) == 0 {
			continue
		}
		found[pod.UID] = true
		p, address := w.watched[pod.UID], net.JoinHostPort(pod.Status.PodIPs[0].IP, strconv.Itoa(install.HTTPPort))
		if p != nil && p.address != address { // after its node was started again, the address may be that of another pod
			p.stop()
			p = nil
		}
		if p == nil {
			p = &watchedProcess{address: address}
			w.watched[pod.UID] = p
			var own context.Context
			own, p.stop = context.WithCancel(ctx)
			w.running.Go(func() { w.watch(own, p) })
		}
		if restarts := restarts(pod.Pod); restarts != p.restarts || !podRuns(pod.Pod) { // the kubelet knows of the end
			p.restarts, p.ended = restarts, false
		}
	}
	for uid, p := range w.watched {
		if !found[uid] {
			p.stop()
			delete(w.watched, uid)
		}
	}
}

func (w *processWatch) stop() {
	w.mu.Lock()
	for _, p := range w.watched {
		p.stop()
	}
	clear(w.watched)
	w.mu.Unlock()
	w.running.Wait()
}

// ended reports whether the process of a pod has ended, and the kubelet has not reported it.
func (w *processWatch) ended(pod types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.watched[pod]
	return p != nil && p.ended
}

// watch keeps a connection open until ctx ends.
func (w *processWatch) watch(ctx context.Context, p *watchedProcess) {
	for connected := false; ctx.Err() == nil; {
		begun := time.Now()
		c, err := w.connect(ctx, p.address)
		switch {
		case err == nil:
			connected = true
			awaitEnd(ctx, c) // servers close idle connections too: the next one shows whether the process has ended
			if time.Since(begun) >= reconnect {
				continue
			} // otherwise a proxy accepts connections for a process that does not
		case connected && errors.Is(err, syscall.ECONNREFUSED):
			connected = false
			w.mu.Lock()
			p.ended = true
			w.mu.Unlock()
			w.changed()
		}
		sleep(ctx, reconnect)
	}
}

// awaitEnd waits until the far end closes a connection, or ctx ends. It closes the connection.
func awaitEnd(ctx context.Context, c net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	_, _ = c.Read(make([]byte, 1)) // the server sends nothing without a request
	_ = c.Close()
}

// ConnectToGateway opens a TCP connection to a gateway: see Options.Connect.
func ConnectToGateway(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: time.Second}
	return d.DialContext(ctx, "tcp", address)
}

func restarts(pod *corev1.Pod) (count int32) {
	for _, c := range pod.Status.ContainerStatuses {
		count += c.RestartCount
	}
	return count
}
