package borrower

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"testing"
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
		long := strings.Repeat("x", size)
		return l.take(protocol.Message{Pod: &protocol.PodStatus{UID: fmt.Sprint("u-", i), State: protocol.StateMade, Status: &corev1.PodStatus{Message: long}}}, i == 0)
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
	if said, err := all(10*protocol.MaxPods, 200<<10); err == nil || said > maxSaidBytes/(200<<10)+1 {
		t.Errorf("%d states of 200 KiB are kept, %v", said, err)
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
