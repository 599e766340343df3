package controller_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/controller"
)

// processes are the processes of gateways, as those see them that connect to their HTTP ports.
type processes struct {
	mu      sync.Mutex
	refused map[string]error      // by host:port; nil: accepts
	open    map[string][]net.Conn // of the servers
}

func (p *processes) connect(_ context.Context, address string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refused[address]; err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	p.open[address] = append(p.open[address], far)
	return near, nil
}

// become closes the connections to a process, and makes further ones fail with an error, or succeed if it is nil.
func (p *processes) become(address string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[address] = err
	for _, c := range p.open[address] {
		_ = c.Close()
	}
	p.open[address] = nil
}

// restart sets what the kubelet reports about a gateway's pod.
func (f *fixture) restart(gateway string, count int32, ready corev1.ConditionStatus) {
	f.Helper()
	f.kubelet(gateway, func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "gateway", RestartCount: count}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	})
}

func TestWithoutNodeHelpersAKilledGatewayIsNoEndpointAtOnce(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		p := &processes{refused: map[string]error{}, open: map[string][]net.Conn{}}
		f.start(f.cluster.Admin(), "default", "first", func(o *controller.Options) {
			o.Gateways.WithoutNodes, o.Connect = true, p.connect
		})
		f.joinedWithoutNodes()
		f.receive("b", record("web", "10.0.0.5"))
		const both, one = "b web/TCP 10.0.0.100 ready 10.0.0.101 ready", "b web/TCP 10.0.0.100 ready"
		f.untilCarriedBy("web", both)
		const killed = "10.0.0.101:8080"
		dead := fmt.Errorf("connect: %w", syscall.ECONNREFUSED)

		begun := time.Now()
		p.become(killed, dead) // the kubelet says that it is ready
		f.untilCarriedBy("web", one)
		if took := since(begun); took > 500*time.Millisecond {
			t.Errorf("a killed gateway was an endpoint for %v", took)
		}
		f.pause(10 * time.Second)
		p.become(killed, nil) // it has no link yet
		f.pause(10 * time.Second)
		f.untilCarriedBy("web", one)
		f.restart("b-1", 1, corev1.ConditionFalse) // now the kubelet has noticed
		f.pause(10 * time.Second)
		f.untilCarriedBy("web", one)
		f.restart("b-1", 1, corev1.ConditionTrue)
		f.untilCarriedBy("web", both)

		p.become(killed, nil) // an idle connection is closed
		p.become("10.0.0.100:8080", errors.New("i/o timeout"))
		f.pause(10 * time.Second)
		f.untilCarriedBy("web", both) // what cannot be reached is not judged
		p.become(killed, dead)
		f.untilCarriedBy("web", one)
		f.restart("b-1", 2, corev1.ConditionTrue) // it was ready again before a pass saw that it was not
		f.untilCarriedBy("web", both)
	})
}

// A pod keeps its name and UID when its node is started again, and gets another address.
func TestAGatewayWithANewAddressIsNotJudgedByTheOldOne(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		p := &processes{refused: map[string]error{}, open: map[string][]net.Conn{}}
		f.start(f.cluster.Admin(), "default", "first", func(o *controller.Options) {
			o.Gateways.WithoutNodes, o.Connect = true, p.connect
		})
		f.joinedWithoutNodes()
		f.receive("b", record("web", "10.0.0.5"))
		f.untilCarriedBy("web", "b web/TCP 10.0.0.100 ready 10.0.0.101 ready")
		f.restart("b-1", 1, corev1.ConditionTrue)
		f.kubelet("b-1", func(pod *corev1.Pod) { pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.102"}} })
		const moved = "b web/TCP 10.0.0.100 ready 10.0.0.102 ready"
		f.untilCarriedBy("web", moved)
		dead := fmt.Errorf("connect: %w", syscall.ECONNREFUSED)
		p.become("10.0.0.101:8080", dead) // now that of a pod without such a port
		f.pause(10 * time.Second)
		f.untilCarriedBy("web", moved)
		p.become("10.0.0.102:8080", dead)
		f.untilCarriedBy("web", "b web/TCP 10.0.0.100 ready")
	})
}

func TestAGatewayThatNeverAcceptedAConnectionIsNotJudged(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		f.start(f.cluster.Admin(), "default", "first", func(o *controller.Options) {
			o.Gateways.WithoutNodes = true
			o.Connect = func(context.Context, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
		})
		f.joinedWithoutNodes()
		f.receive("b", record("web", "10.0.0.5"))
		f.pause(10 * time.Second)
		f.untilCarriedBy("web", "b web/TCP 10.0.0.100 ready 10.0.0.101 ready")
	})
}

// A sidecar accepts connections in the name of a process that has ended, and closes them.
func TestAProxyThatClosesConnectionsAtOnceIsAskedSeldom(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		var connections atomic.Int32
		f.start(f.cluster.Admin(), "default", "first", func(o *controller.Options) {
			o.Gateways.WithoutNodes = true
			o.Connect = func(ctx context.Context, _ string) (net.Conn, error) {
				if connections.Add(1) > 1000 {
					<-ctx.Done() // otherwise no time would pass
				}
				near, far := net.Pipe()
				_ = far.Close()
				return near, nil
			}
		})
		f.joinedWithoutNodes()
		connections.Store(0)
		f.pause(10 * time.Second)
		if n := connections.Load(); n < 20 || n > 100 {
			t.Errorf("%d connections to two gateways in 10 s", n)
		}
	})
}
