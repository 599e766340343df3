package controller_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// runPod creates a running pod with an address on a node.
func (f *fixture) runPod(name, node, address string) {
	f.Helper()
	no := false
	pod, err := f.Pods("work").Create(f.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeName: node, AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}, metav1.CreateOptions{})
	must(f.T, err)
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
	_, err = f.Pods("work").UpdateStatus(f.Context(), pod, metav1.UpdateOptions{})
	must(f.T, err)
}

func (f *fixture) removePod(name string) {
	f.Helper()
	now := int64(0)
	must(f.T, f.Pods("work").Delete(f.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// untilPods waits until these are the addresses of pods in the attachments, like
// "node-1 [10.9.0.1/32]".
func (f *fixture) untilPods(want ...string) {
	f.Helper()
	f.until("addresses of pods", func() string {
		list, err := f.NodeAttachments().List(f.Context(), metav1.ListOptions{})
		must(f.T, err)
		var got []string
		for _, a := range list.Items {
			got = append(got, fmt.Sprintf("%s %s", a.Name, a.Spec.PodAddresses))
		}
		if !slices.Equal(got, want) {
			return fmt.Sprintf("%q, want %q", got, want)
		}
		return ""
	})
}

// publishesPods takes pods through what may happen to them.
func (f *fixture) publishesPods() {
	f.Helper()
	f.cluster.Account(f.T, "work", "default", nil) // without which no pod is admitted
	f.node("node-1", "192.0.2.21", "10.0.1.0/24")
	f.node("node-2", "192.0.2.22", "")
	f.runPod("inside", "node-1", "10.0.1.5")
	f.runPod("outside", "node-1", "10.9.0.0")
	stop := f.lead()
	f.untilPods("node-1 [10.9.0.0/32]", "node-2 []")
	f.runPod("next", "node-1", "10.9.0.1")
	f.runPod("other", "node-2", "10.9.0.9")
	f.untilPods("node-1 [10.9.0.0/31]", "node-2 [10.9.0.9/32]")
	f.removePod("outside")
	f.runPod("moved", "node-2", "10.9.0.0")
	f.untilPods("node-1 [10.9.0.1/32]", "node-2 [10.9.0.0/32 10.9.0.9/32]")

	stop()
	f.removePod("next")
	f.runPod("strayed", "node-2", "10.0.1.9")
	f.lead()
	f.untilPods("node-1 []", "node-2 [10.9.0.0/32 10.9.0.9/32]")
	f.until("the problem is logged", func() string {
		if !strings.Contains(f.log.String(), "node node-2: pods have addresses in the podCIDRs of other nodes") {
			return "it is not"
		}
		return ""
	})
}

func TestAddressesOfPodsOutsideArePublished(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) { f.publishesPods() })
}

// writesOfAttachments calls between with each request that writes a NodeAttachment. Its result is the answer to the
// controller, after it has called perform or not.
func writesOfAttachments(config *rest.Config, between func(r *http.Request, perform func() (*http.Response, error)) (*http.Response, error)) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			perform := func() (*http.Response, error) { return next.RoundTrip(r) }
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/nodeattachments/") {
				return between(r, perform)
			}
			return perform()
		})
	})
	return config
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A slow answer delays only the pods of its node.
//
//strait:virtualtime
func TestASlowWriteOfPodAddressesDelaysNoOtherNode(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.cluster.Account(t, "work", "default", nil)
		f.node("node-1", "192.0.2.21", "10.0.1.0/24")
		f.node("node-2", "192.0.2.22", "10.0.2.0/24")
		const slow = 8 * time.Second
		var slowed atomic.Bool
		f.start(writesOfAttachments(f.cluster.Admin(), func(r *http.Request, perform func() (*http.Response, error)) (*http.Response, error) {
			body, err := r.GetBody()
			must(t, err)
			text, err := io.ReadAll(body)
			must(t, err)
			if strings.Contains(string(text), "10.9.0.1/32") && !slowed.Swap(true) {
				time.Sleep(slow)
			}
			return perform()
		}), "default", "first")
		f.untilPods("node-1 []", "node-2 []")
		begun := time.Now()
		f.runPod("late", "node-1", "10.9.0.1")
		time.Sleep(time.Second) // that write is running
		f.runPod("early", "node-2", "10.9.0.3")
		f.untilPods("node-1 []", "node-2 [10.9.0.3/32]")
		f.runPod("next", "node-2", "10.9.0.5")
		f.untilPods("node-1 []", "node-2 [10.9.0.3/32 10.9.0.5/32]")
		if took := time.Since(begun); took > 4*time.Second {
			t.Errorf("node-2 had the addresses of its pods after %v", took)
		}
		f.untilPods("node-1 [10.9.0.1/32]", "node-2 [10.9.0.3/32 10.9.0.5/32]")
		if took := time.Since(begun); took < slow {
			t.Fatalf("nothing was slow: all was written after %v", took)
		}
	})
}

// Churn: a node is written once a second at most, and no address has two nodes meanwhile.
func TestF23_ChurnOfPodsCausesOneWritePerNodeAndSecond(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) { f.churnsPods(f.cluster.Admin()) })
}

// A write whose answer is lost or late may have been performed: its address does not get a second node.
//
//strait:virtualtime
func TestF23_ChurnOfPodsKeepsNodesApartThoughAnswersAreLost(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		random, lost := rand.New(rand.NewPCG(1, 2)), 0
		var mu sync.Mutex
		f.churnsPods(writesOfAttachments(f.cluster.Admin(), func(r *http.Request, perform func() (*http.Response, error)) (*http.Response, error) {
			mu.Lock()
			kind, before, after := random.IntN(4), random.IntN(1500), random.IntN(1500)
			mu.Unlock()
			time.Sleep(time.Duration(before) * time.Millisecond)
			if kind == 0 { // neither performed nor answered
				return nil, errors.New("the connection was reset")
			}
			response, err := perform()
			time.Sleep(time.Duration(after) * time.Millisecond)
			if kind == 1 && err == nil {
				mu.Lock()
				lost++
				mu.Unlock()
				_ = response.Body.Close()
				return nil, errors.New("the answer was lost")
			}
			return response, err
		}))
		if mu.Lock(); lost == 0 {
			t.Error("no answer was lost")
		}
		mu.Unlock()
	})
}

// churnsPods starts and ends pods on two nodes, so that their addresses move between these.
//
//strait:virtualtime
func (f *fixture) churnsPods(config *rest.Config) {
	f.Helper()
	t := f.T
	f.cluster.Account(t, "work", "default", nil)
	f.node("node-1", "192.0.2.21", "10.0.1.0/24") // its pods are elsewhere
	f.node("node-2", "192.0.2.22", "10.0.2.0/24")
	f.start(config, "default", "first")
	f.untilPods("node-1 []", "node-2 []")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch, err := f.NodeAttachments().Watch(ctx, metav1.ListOptions{})
	must(t, err)
	defer watch.Stop()
	writes, holds, double := map[string]int{}, map[string][]v1alpha1.CIDR{}, ""
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watch.ResultChan() {
			a, ok := event.Object.(*v1alpha1.NodeAttachment)
			if !ok {
				continue
			}
			writes[a.Name]++
			holds[a.Name] = a.Spec.PodAddresses
			for _, one := range holds["node-1"] {
				if slices.Contains(holds["node-2"], one) {
					double = string(one)
				}
			}
		}
	}()
	const seconds, rate = 10, 20
	const alive = 4 // pods at a time
	pod := func(i int) string { return fmt.Sprintf("pod-%d", i) }
	for i := range seconds * rate {
		f.runPod(pod(i), fmt.Sprintf("node-%d", 1+i*3%7%2), fmt.Sprintf("10.9.0.%d", 1+2*(i%(alive+1))))
		time.Sleep(time.Second / rate)
		if i >= alive {
			f.removePod(pod(i - alive))
		}
	}
	for i := seconds*rate - alive; i < seconds*rate; i++ {
		f.removePod(pod(i))
	}
	f.untilPods("node-1 []", "node-2 []")
	watch.Stop()
	<-done
	for node, n := range writes {
		if n < 3 || n > seconds+4 {
			t.Errorf("%s was written %d times in %d s with %d changes a second", node, n, seconds, 2*rate)
		}
	}
	if double != "" {
		t.Errorf("both nodes had %s", double)
	}
}

func TestT6_TheAddressOfAPodStaysWithItsNodeAlsoAfterARestart(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		f.cluster.Account(f.T, "work", "default", nil)
		f.node("node-1", "192.0.2.21", "10.0.1.0/24")
		f.node("node-2", "192.0.2.22", "")
		f.runPod("old", "node-2", "10.9.0.1") // an older pod that reports the address later
		f.pause(2 * time.Second)
		f.runPod("db", "node-1", "10.9.0.9")
		stop := f.lead()
		f.untilPods("node-1 [10.9.0.9/32]", "node-2 [10.9.0.1/32]")
		f.movePod("old", "10.9.0.9")
		f.runPod("mirror", "node-2", "10.9.0.9")
		kept := func() {
			f.Helper()
			f.pause(10 * time.Second)
			f.untilPods("node-1 [10.9.0.9/32]", "node-2 []")
		}
		kept()
		f.until("the conflict is logged", func() string {
			if !f.logged("Pod work/mirror: node node-2 reports the address 10.9.0.9 for it, which Pod work/db of node node-1 has already") {
				return "it is not"
			}
			return ""
		})
		stop()
		f.lead()
		kept()

		begun := time.Now()
		f.removePod("db") // the address is free, and used again
		f.untilPods("node-1 []", "node-2 [10.9.0.9/32]")
		if took := since(begun); took > 3*time.Second {
			f.Errorf("the next pod had its address after %v", took)
		}
	})
}

// movePod makes a kubelet report another address of a pod.
func (f *fixture) movePod(name, address string) {
	f.Helper()
	pod, err := f.Pods("work").Get(f.Context(), name, metav1.GetOptions{})
	must(f.T, err)
	pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	_, err = f.Pods("work").UpdateStatus(f.Context(), pod, metav1.UpdateOptions{})
	must(f.T, err)
}
