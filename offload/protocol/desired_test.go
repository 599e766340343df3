package protocol_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"strait.dev/strait/offload/protocol"
)

var epoch = strings.Repeat("e", 64)

// list returns a valid list.
func list() protocol.Desired {
	return protocol.Desired{Epoch: epoch, Term: 2, Sequence: 7, Pods: []protocol.Pod{
		{Namespace: "shop", Name: "web-0", UID: "7f1c2d9e-0000-4000-8000-000000000001", Hash: protocol.Hash([]byte("web"))},
		{Namespace: "shop", Name: "job.1", UID: "7f1c2d9e-0000-4000-8000-000000000002", Hash: protocol.Hash([]byte("job")), Finished: true, Once: true},
		{Namespace: "shop", Name: "old", UID: "7f1c2d9e-0000-4000-8000-000000000003", Deleting: true, Grace: 30},
	}, Objects: []protocol.Object{
		{Kind: protocol.KindConfigMap, Namespace: "shop", Name: "settings.v1", Hash: protocol.Hash([]byte("c")), Size: 7},
		{Kind: protocol.KindSecret, Namespace: "shop", Name: "settings.v1"},
	}, Unread: []string{"jobs"}}
}

func TestListsSurviveTheWire(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]protocol.Desired{"pods": list(), "no pods": {Epoch: epoch, Term: 1, Sequence: 1}} {
		text, err := d.Encode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := protocol.DecodeDesired(text)
		if err != nil {
			t.Fatalf("%s: %v in %s", name, err, text)
		}
		d.Sign()
		if !reflect.DeepEqual(*got, d) {
			t.Errorf("%s: %+v became %+v", name, d, *got)
		}
	}
}

func TestAListThatIsNotWholeIsRejected(t *testing.T) {
	t.Parallel()
	d := list()
	text, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for end := range text {
		if _, err := protocol.DecodeDesired(text[:end]); err == nil {
			t.Fatalf("the first %d of %d bytes are accepted", end, len(text))
		}
	}
	d.Sign()
	shorter := strings.Replace(string(text), `{"namespace":"shop","name":"old","uid":"7f1c2d9e-0000-4000-8000-000000000003","deleting":true,"grace":30}`, "", 1)
	shorter = strings.Replace(shorter, ",]", "]", 1)
	if _, err := protocol.DecodeDesired([]byte(shorter)); err == nil || !strings.HasPrefix(err.Error(), "digest: ") {
		t.Errorf("a list without one of its pods: %v", err)
	}
}

// The digest is that of the bytes, so that a version which lacks a field accepts the rest.
func TestAListOfALaterVersionIsAccepted(t *testing.T) {
	t.Parallel()
	const covered = `{"pods":[{"namespace":"shop","name":"old","uid":"u-1","deleting":true,"color":"red"}],"unread":["jobs"]}`
	for digest, accepted := range map[string]bool{protocol.Hash([]byte(covered)): true, protocol.Hash(nil): false} {
		text := fmt.Sprintf(`{"epoch":%q,"term":1,"sequence":1,"digest":%q,"more":{},%s`, epoch, digest, covered[1:])
		got, err := protocol.DecodeDesired([]byte(text))
		if (err == nil) != accepted || accepted && (len(got.Pods) != 1 || got.Pods[0].Name != "old") {
			t.Errorf("with the digest %s: %+v, %v", digest, got, err)
		}
	}
}

func TestInvalidListsAreNamedByTheirField(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(d *protocol.Desired){
		"epoch: is not one":                                  func(d *protocol.Desired) { d.Epoch = "now" },
		"term: 0 is less than 1":                             func(d *protocol.Desired) { d.Term = 0 },
		"sequence: -1 is less than 1":                        func(d *protocol.Desired) { d.Sequence = -1 },
		"pods[0].namespace: is not the name of a namespace":  func(d *protocol.Desired) { d.Pods[0].Namespace = "../kube-system" },
		"pods[0].name: is not the name of a pod":             func(d *protocol.Desired) { d.Pods[0].Name = "web..0" },
		"pods[1].uid: is not a UID":                          func(d *protocol.Desired) { d.Pods[1].UID = strings.Repeat("a", 64) },
		"pods[1].hash: is not 64 hexadecimal digits":         func(d *protocol.Desired) { d.Pods[1].Hash = "" },
		"pods[2].hash: is not used":                          func(d *protocol.Desired) { d.Pods[2].Hash = protocol.Hash(nil) },
		"pods[2].grace: -1 is out of range":                  func(d *protocol.Desired) { d.Pods[2].Grace = -1 },
		"pods[0].grace: 5 is out of range, or the pod is no": func(d *protocol.Desired) { d.Pods[0].Grace = 5 },
		"pods[1]: shop/web-0 occurs twice":                   func(d *protocol.Desired) { d.Pods[1].Name = "web-0" },
		"pods[2]: shop/old occurs twice":                     func(d *protocol.Desired) { d.Pods[2].UID = d.Pods[0].UID },
		"objects[0].kind: is not one":                        func(d *protocol.Desired) { d.Objects[0].Kind = "Role" },
		"objects[0].namespace: is not the name":              func(d *protocol.Desired) { d.Objects[0].Namespace = "" },
		"objects[0].name: is not the name of an object":      func(d *protocol.Desired) { d.Objects[0].Name = "../../nodes" },
		"objects[0].hash: is not 64 hexadecimal digits":      func(d *protocol.Desired) { d.Objects[0].Hash = "1" },
		"objects[0].size: 0 is out of range":                 func(d *protocol.Desired) { d.Objects[0].Size = 0 },
		"objects[1].size: 1 is out of range, or does not be": func(d *protocol.Desired) { d.Objects[1].Size = 1 },
		"objects[1]: Secret shop/settings.v1 occurs twice":   func(d *protocol.Desired) { d.Objects[0].Kind = protocol.KindSecret },
		"unread: is not a list":                              func(d *protocol.Desired) { d.Unread[0] = "a/b" },
		"objects: 2001 are too many":                         func(d *protocol.Desired) { d.Objects = manyObjects(protocol.MaxObjects + 1) },
		"pods: 2001 are too many":                            func(d *protocol.Desired) { d.Pods = many(protocol.MaxPods + 1) },
	} {
		d := list()
		change(&d)
		if _, err := d.Encode(); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

// many returns a number of entries with the longest names.
func many(n int) (pods []protocol.Pod) {
	for i := range n {
		name := fmt.Sprintf("%04d-%s", i, strings.Repeat("n", 248))
		pods = append(pods, protocol.Pod{Namespace: strings.Repeat("s", 63), Name: name, UID: fmt.Sprintf("7f1c2d9e-0000-4000-8000-%012d", i), Hash: protocol.Hash([]byte(name))})
	}
	return pods
}

func manyObjects(n int) (objects []protocol.Object) {
	for _, p := range many(n) {
		objects = append(objects, protocol.Object{Kind: protocol.KindConfigMap, Namespace: p.Namespace, Name: p.Name, Hash: p.Hash, Size: protocol.MaxContent})
	}
	return objects
}

func TestTheLargestListFits(t *testing.T) {
	t.Parallel()
	if _, err := (protocol.Desired{Epoch: epoch, Term: 1, Sequence: 1, Pods: many(protocol.MaxPods), Objects: manyObjects(protocol.MaxObjects)}).Encode(); err != nil {
		t.Error(err)
	}
}

// A list that is accepted is encoded as the same list, so what one side checks is what the
// other meant.
func FuzzDecodeDesired(f *testing.F) {
	text, err := list().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"epoch":"","pods":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := protocol.DecodeDesired(text)
		if err != nil {
			return
		}
		again, err := d.Encode()
		if err != nil {
			t.Fatalf("an accepted list is not valid: %v", err)
		}
		other, err := protocol.DecodeDesired(again)
		if err == nil {
			other.Digest = d.Digest // which covers fields that this version lacks
		}
		if err != nil || !reflect.DeepEqual(d, other) {
			t.Fatalf("%+v became %+v, %v", d, other, err)
		}
	})
}
