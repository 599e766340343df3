package borrower

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/offload/protocol"
)

// A hostile lender may say anything about any number of pods: what the borrower keeps of it is
// limited in number and bytes, and what it says about others is forgotten.
func TestWhatALenderSaysIsLimited(t *testing.T) {
	t.Parallel()
	l := newLink(tls.Certificate{}, nil, nil, slog.New(slog.DiscardHandler), func() {})
	say := func(i, size int) error {
		const texts = 8
		long := strings.Repeat("x", size/texts)
		is := &corev1.PodStatus{Phase: corev1.PodRunning}
		for range texts {
			is.ContainerStatuses = append(is.ContainerStatuses, corev1.ContainerStatus{Image: long})
		}
		return l.take(protocol.Message{Pod: &protocol.PodStatus{UID: fmt.Sprint("u-", i), State: protocol.StateMade, Status: is}}, i == 0)
	}
	all := func(pods, size int) (said int, err error) {
		for i := range pods {
			if err := say(i, size); err != nil {
				return i, err
			}
		}
		return pods, nil
	}
	if said, err := all(protocol.MaxPods, 8<<10); err != nil {
		t.Errorf("after %d pods with ordinary states: %v", said, err)
	}
	for i := range 100 * protocol.MaxPods {
		if err := say(1+i%10, 8<<10); err != nil {
			t.Fatalf("after %d changes of the same pods: %v", i, err)
		}
	}
	if said, err := all(10*protocol.MaxPods, 30<<10); err == nil || said > maxSaidBytes/(30<<10)+1 {
		t.Errorf("%d states of 30 KiB are kept, %v", said, err)
	}
	if said, err := all(10*protocol.MaxPods, 0); err == nil || said > maxSaid+1 {
		t.Errorf("states of %d pods are kept, %v", said, err)
	}
	if _, err := all(protocol.MaxPods, 8<<10); err != nil {
		t.Fatal(err)
	}
	if err := l.take(protocol.Message{Synced: true}, false); err != nil {
		t.Fatal(err)
	}
	if s := l.state(map[string]bool{"u-1": true}, time.Now()); len(s.said) != 1 || l.bytes > 16<<10 {
		t.Errorf("of pods that do not exist, %d states stay, with %d bytes", len(s.said)-1, l.bytes)
	}
}

// Empty elements are three bytes each in the stream, and up to a hundred times that in memory.
func TestAStateOfManyEmptyElementsIsNotKept(t *testing.T) {
	t.Parallel()
	l := newLink(tls.Certificate{}, nil, nil, slog.New(slog.DiscardHandler), func() {})
	empty := strings.Repeat(",{}", 10_000)[1:]
	same := strings.Repeat(`,{"type":"Ready"}`, 1000)[1:]
	line := fmt.Sprintf(`{"pod":{"uid":"u-1","state":"Made","status":{"conditions":[%s,%s],"containerStatuses":[%s],"initContainerStatuses":[%s],"podIPs":[%s],"hostIPs":[%s]}}}`,
		empty, same, empty, empty, empty, empty)
	m, err := protocol.NewReader(strings.NewReader(line)).Read()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.take(m, true); err != nil {
		t.Fatal(err)
	}
	is := l.said["u-1"].Status
	if n := len(is.Conditions) + len(is.ContainerStatuses) + len(is.InitContainerStatuses) + len(is.PodIPs) + len(is.HostIPs); n > 64 {
		t.Errorf("%d elements are kept", n)
	}
}

// A hostile lender accepts connections for streams, and says nothing.
func TestAConnectionWithoutAHandshakeEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = io.Copy(io.Discard, far)
		}()
		l := newLink(tls.Certificate{}, func() (Lender, error) { return Lender{}, nil },
			func(context.Context, string, string) (net.Conn, error) { return near, nil }, slog.New(slog.DiscardHandler), func() {})
		ctx, cancel := context.WithTimeout(t.Context(), streamPatience)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://lender/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.pods.RoundTrip(r); err == nil {
			t.Fatal("there is an answer")
		}
		time.Sleep(time.Minute)
		select {
		case <-ended:
		default:
			t.Error("the connection is open a minute after the stream has failed")
		}
	})
}
