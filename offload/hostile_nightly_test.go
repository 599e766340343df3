//go:build nightly

package offload_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/identity"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/operate/offload"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/netns"
)

// attackFor is how long a hostile borrower asks at full speed.
const attackFor = 3 * time.Minute

// A hostile consumer has the key of its borrower, and asks for whatever it likes as fast as the lender
// answers: new and changed pods with long templates, large ConfigMaps, names of others, namespaces that
// are not lent, ever higher terms. It gets what the budgets permit, in what is lent to it, and costs
// the lender alone.
func TestAHostileBorrowerAtFullSpeedGetsItsBudget(t *testing.T) {
	p := newPairOf(t, kube.StartWithNodes, kube.StartAudited)
	agents, host := p.programs(t)
	must(t, p.b.ApplyYAML(t.Context(), "/api/v1/namespaces/shop/serviceaccounts/default", []byte("{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: shop}}"), "test"))
	_, err := p.b.ConfigMaps("shop").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "provider"}, Data: map[string]string{"is": "theirs"}}, metav1.CreateOptions{})
	must(t, err)
	agents[0].Kill()
	h := newHostile(t, p, host)
	stored, asked := p.of[1].Stored(t), requests(t, p.of[1])
	begun := time.Now()
	for round := 0; time.Since(begun) < attackFor; round++ {
		h.attack(t, round)
	}
	grown, more := p.of[1].Stored(t)-stored, requests(t, p.of[1])-asked
	t.Logf("%v: %d requests with %d MiB, %d of them refused; etcd grew by %d MiB, the API server got %d requests of the lender, which used %d MiB at its peak",
		attackFor, h.asked.Load(), h.sent.Load()>>20, h.refused.Load(), grown>>20, more, agents[1].PeakMemory(t)>>20)
	if h.asked.Load() < 1000 || h.sent.Load() < 256<<20 {
		t.Error("the attack did too little")
	}
	// A record and its twin have the same template, and etcd keeps former versions until they are compacted.
	if most := int64(192<<20) + 2*64<<10*int64(attackFor/time.Second); grown > most {
		t.Errorf("etcd grew by %d MiB, want at most %d", grown>>20, most>>20)
	}
	if most := 3*8000 + 3*20*int(attackFor/time.Second); more > most { // a write needs up to two reads before it
		t.Errorf("the lender made %d requests, want at most %d", more, most)
	}
	if peak := agents[1].PeakMemory(t); peak > 128<<20 {
		t.Errorf("the lender used %d MiB: its limit is 128", peak>>20)
	}
	if lines := strings.Count(agents[1].Log(), "\n"); lines > 500 {
		t.Errorf("the lender logged %d lines", lines)
	}
	if is, err := p.b.ConfigMaps("shop").Get(t.Context(), "provider", metav1.GetOptions{}); err != nil || is.Data["is"] != "theirs" {
		t.Errorf("a ConfigMap of the provider is now %v, %v", is.Data, err)
	}
	for _, namespace := range []string{"default", "kube-system", offload.Namespace} {
		pods, err := p.b.Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "strait.dev/peering"})
		if err != nil || len(pods.Items) > 0 {
			t.Errorf("namespace %s has %d pods of the consumer, %v", namespace, len(pods.Items), err)
		}
	}
}

// hostile is a borrower that keeps to no rule but the encoding.
type hostile struct {
	client  *http.Client
	epoch   string
	term    int32
	long    string
	asked   atomic.Int64
	refused atomic.Int64
	sent    atomic.Int64 // bytes
}

// newHostile returns a hostile borrower with the key of the real one.
func newHostile(t *testing.T, p *pair, host *netns.Namespace) *hostile {
	t.Helper()
	key, err := identity.Load(t.Context(), p.a.Secrets(offload.Namespace), borrower.Name("b"))
	must(t, err)
	peering, err := p.b.Peerings().Get(t.Context(), "a", metav1.GetOptions{})
	must(t, err)
	lender := peering.Spec.Lend.Lender
	h := &hostile{term: math.MaxInt32 - 1<<20, long: strings.Repeat("x", 200<<10), client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		MaxIdleConnsPerHost: 16,
		TLSClientConfig:     protocol.Client(key, func() string { return string(lender.Fingerprint) }),
		DialContext: func(ctx context.Context, network, _ string) (c net.Conn, err error) {
			inside := host.In(func() error {
				c, err = new(net.Dialer).DialContext(ctx, network, "10.72.0.1:6097")
				return err
			})
			return c, inside
		},
	}}}
	h.greet(t)
	return h
}

// greet begins a status stream, and reads the epoch that lists have to name.
func (h *hostile) greet(t *testing.T) {
	t.Helper()
	kube.Until(t, "the lender answers", func() string {
		answer, err := h.client.Get(fmt.Sprintf("https://lender%s?term=%d", protocol.StatusPath, h.term))
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		m, err := protocol.NewReader(answer.Body).Read()
		if err != nil || m.Hello == nil {
			return fmt.Sprint(answer.Status, " ", err)
		}
		h.epoch = m.Hello.Epoch
		return ""
	})
}

// put sends a body, and counts it and its refusal.
func (h *hostile) put(path string, body []byte) {
	r, err := http.NewRequest(http.MethodPut, "https://lender"+path, bytes.NewReader(body))
	if err != nil {
		panic(err) // the paths are valid
	}
	h.asked.Add(1)
	h.sent.Add(int64(len(body)))
	answer, err := h.client.Do(r)
	if err != nil {
		h.refused.Add(1)
		return
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	if answer.StatusCode >= 400 {
		h.refused.Add(1)
	}
}

// attack sends one list with a higher term, and everything that belongs to it.
func (h *hostile) attack(t *testing.T, round int) {
	t.Helper()
	h.term++
	d := protocol.Desired{Epoch: h.epoch, Term: h.term, Sequence: 1}
	templates, contents := make(map[string][]byte), make(map[string][]byte)
	add := func(namespace, name, uid string) {
		text, hash, err := protocol.EncodeTemplate(&corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"round": fmt.Sprint(round)}},
			Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
				Containers: []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "LONG", Value: h.long}}, SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
			}})
		must(t, err)
		d.Pods = append(d.Pods, protocol.Pod{Namespace: namespace, Name: name, UID: uid, Hash: hash})
		templates[hash] = text
	}
	for i := range 8 { // changed in each round
		add("shop", fmt.Sprint("changes-", i), fmt.Sprint("u-", i))
	}
	for i := range 8 { // new in each round
		add("shop", fmt.Sprint("new-", round%3, "-", i), fmt.Sprint("u-", round, "-", i))
	}
	for _, namespace := range []string{"default", "kube-system", offload.Namespace} {
		add(namespace, "elsewhere", "u-"+namespace)
	}
	for i := range 4 {
		text, hash, err := protocol.EncodeContent(&protocol.Content{ConfigMap: &protocol.ConfigMap{Data: map[string]string{"round": fmt.Sprint(round), "long": h.long + h.long + h.long}}})
		must(t, err)
		name := fmt.Sprint("large-", i)
		if i == 0 {
			name = "provider"
		}
		d.Objects = append(d.Objects, protocol.Object{Kind: protocol.KindConfigMap, Namespace: "shop", Name: name, Hash: hash, Size: len(text)})
		contents[hash] = text
	}
	for i := range 500 { // as if they were deleted, which the lender confirms
		d.Pods = append(d.Pods, protocol.Pod{Namespace: "shop", Name: fmt.Sprint("gone-", i), UID: fmt.Sprint("g-", round, "-", i), Deleting: true})
	}
	text, err := d.Encode()
	must(t, err)
	h.put(protocol.DesiredPath, text)
	for hash, text := range templates {
		h.put(protocol.TemplatesPath+hash, text)
	}
	for hash, text := range contents {
		h.put(protocol.ObjectsPath+hash, text)
	}
}
