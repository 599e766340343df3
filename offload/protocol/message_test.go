package protocol_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/offload/protocol"
)

// messages returns one message of each type.
func messages() []protocol.Message {
	return []protocol.Message{
		{Hello: &protocol.Hello{Epoch: epoch, Term: 3, Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}, Namespaces: []string{"shop"}}},
		{Pod: &protocol.PodStatus{UID: "u-1", State: protocol.StateMade, Made: 2, Status: &corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.1.5"}}},
		{Needs: &protocol.Needs{Hashes: []string{epoch}}},
		{Pod: &protocol.PodStatus{UID: "u-3", State: protocol.StateRefused, Reason: "NamespaceNotLent", Ended: true}},
		{Pod: &protocol.PodStatus{UID: "u-2", State: protocol.StateRefused, Reason: "TwinRefused", Message: "exceeded quota"}},
		{Synced: true},
		{Heartbeat: true},
	}
}

func TestMessagesSurviveTheStream(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	for _, m := range messages() {
		if err := protocol.Write(&stream, m); err != nil {
			t.Fatal(err)
		}
	}
	in := protocol.NewReader(&stream)
	for _, want := range messages() {
		got, err := in.Read()
		if err != nil {
			t.Fatal(err)
		}
		if h := want.Hello; h != nil { // quantities differ in their cached text
			if q := got.Hello.Resources[corev1.ResourceCPU]; q.Cmp(h.Resources[corev1.ResourceCPU]) != 0 {
				t.Errorf("lent %v, received %v", h.Resources, got.Hello.Resources)
			}
			got.Hello.Resources = h.Resources
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("sent %+v, received %+v", want, got)
		}
	}
	if _, err := in.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last message: %v", err)
	}
}

func TestInvalidMessagesAreRejected(t *testing.T) {
	t.Parallel()
	for says, line := range map[string]string{
		"a message has 0 fields":          `{}`,
		"a message has 2 fields":          `{"synced":true,"heartbeat":true}`,
		"is not the expected JSON":        `{"pod":[]}`,
		"hello.epoch: is not one":         `{"hello":{"epoch":"x"}}`,
		"hello.namespaces: one is not":    `{"hello":{"epoch":"` + epoch + `","namespaces":["a/b"]}}`,
		"hello.resources: one is neg":     `{"hello":{"epoch":"` + epoch + `","resources":{"cpu":"-1"}}}`,
		"pod.uid: is not a UID":           `{"pod":{"uid":"../x","state":"Gone"}}`,
		"pod.state: is not one":           `{"pod":{"uid":"u","state":"Perhaps"}}`,
		"pod.status: belongs to":          `{"pod":{"uid":"u","state":"Made"}}`,
		"pod.ended: belongs to":           `{"pod":{"uid":"u","state":"Pending","ended":true}}`,
		"needs: is not a list":            `{"needs":{"hashes":["x"]}}`,
		"pod.made: is negative":           `{"pod":{"uid":"u","state":"Pending","made":-1}}`,
		"pod: a text is longer":           `{"pod":{"uid":"u","state":"Refused","message":"` + strings.Repeat("m", 1025) + `"}}`,
		"has data after the JSON value":   `{"synced":true} {"synced":true}`,
		"read the status stream: bufio.S": `{"pod":{"uid":"` + strings.Repeat("u", protocol.MaxLine) + `"}}`,
	} {
		if _, err := protocol.NewReader(strings.NewReader(line + "\n")).Read(); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

func TestATemplateIsTheOneOfItsHash(t *testing.T) {
	t.Parallel()
	made := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	text, hash, err := protocol.EncodeTemplate(made)
	if err != nil {
		t.Fatal(err)
	}
	got, err := protocol.DecodeTemplate(text, hash)
	if err != nil || !reflect.DeepEqual(got, made) {
		t.Errorf("%+v became %+v, %v", made, got, err)
	}
	if _, err := protocol.DecodeTemplate(append(text, ' '), hash); err == nil {
		t.Error("other bytes are accepted under the hash")
	}
	// A later version of Kubernetes may have added a field that changes the meaning.
	later := []byte(strings.Replace(string(text), `"spec":{`, `"spec":{"fieldOfTheFuture":true,`, 1))
	if _, err := protocol.DecodeTemplate(later, protocol.Hash(later)); err == nil || !strings.Contains(err.Error(), "fieldOfTheFuture") {
		t.Errorf("with a field that this version does not know: %v", err)
	}
	made.Spec.Containers[0].Args = []string{strings.Repeat("a", protocol.MaxTemplate)}
	if _, _, err := protocol.EncodeTemplate(made); err == nil {
		t.Error("a template of any size is sent")
	}
}

// Whatever a lender sends is an error or a valid message.
func FuzzReadMessage(f *testing.F) {
	for _, m := range messages() {
		var line bytes.Buffer
		if err := protocol.Write(&line, m); err != nil {
			f.Fatal(err)
		}
		f.Add(line.Bytes())
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		in := protocol.NewReader(bytes.NewReader(stream))
		for {
			m, err := in.Read()
			if err != nil {
				return
			}
			if err := protocol.Write(io.Discard, m); err != nil && !strings.Contains(err.Error(), "is longer than") {
				t.Fatalf("a message that was read is not valid: %v", err)
			}
		}
	})
}
