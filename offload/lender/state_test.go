package lender_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/offload/lender"
	"strait.dev/strait/offload/protocol"
)

var (
	epoch = strings.Repeat("e", 64)
	now   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// list returns a list of n pods with different templates, and these.
func list(term int32, sequence int64, n int) (*protocol.Desired, []*corev1.PodTemplateSpec) {
	d := &protocol.Desired{Epoch: epoch, Term: term, Sequence: sequence}
	var templates []*corev1.PodTemplateSpec
	for i := range n {
		t := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: fmt.Sprint("image:", i)}}}}
		_, hash, err := protocol.EncodeTemplate(t)
		if err != nil {
			panic(err)
		}
		d.Pods = append(d.Pods, protocol.Pod{Namespace: "shop", Name: fmt.Sprint("web-", i), UID: fmt.Sprint("u-", i), Hash: hash})
		templates = append(templates, t)
	}
	d.Sign()
	return d, templates
}

func TestListsAreFenced(t *testing.T) {
	t.Parallel()
	st := lender.NewState("a", epoch, 3)
	accept := func(d *protocol.Desired) bool { return !errors.Is(st.Accept(d), lender.ErrFenced) }
	first, _ := list(3, 5, 1)
	same, _ := list(3, 5, 1)
	other, _ := list(3, 5, 2)
	earlier, _ := list(3, 4, 1)
	former, _ := list(2, 9, 1)
	next, _ := list(4, 1, 1)
	foreign, _ := list(9, 9, 1)
	foreign.Epoch = strings.Repeat("f", 64)
	for _, step := range []struct {
		what     string
		list     *protocol.Desired
		accepted bool
	}{
		{"the first one", first, true}, {"the same one again", same, true}, {"another one of its sequence", other, false},
		{"an earlier one", earlier, false}, {"one of a former term", former, false}, {"one for another run of the lender", foreign, false},
		{"one of the next term", next, true}, {"the first one, late", first, false},
	} {
		if got := accept(step.list); got != step.accepted {
			t.Errorf("%s: accepted is %v", step.what, got)
		}
	}
	st.Fence(5)
	if accept(next) {
		t.Error("a list is accepted whose borrower was fenced")
	}
}

// A borrower makes the lender keep no more than a few templates, and none that no pod needs.
func TestTheStockOfTemplatesIsLimited(t *testing.T) {
	t.Parallel()
	st := lender.NewState("a", epoch, 1)
	d, templates := list(1, 1, 3*protocol.MaxStock)
	if err := st.Stock(d.Pods[0].Hash, templates[0]); err == nil {
		t.Error("a template is kept that no list needs")
	}
	if err := st.Accept(d); err != nil {
		t.Fatal(err)
	}
	lent := map[string]lender.Namespace{"shop": {Lent: true, Read: true}}
	made := 0
	for round := 0; made < len(d.Pods); round++ {
		decided := st.Decide(lent, lender.Path{}, now)
		writes, statuses := decided.Writes, decided.Statuses
		of := lent["shop"]
		for _, w := range writes {
			if w.Act != lender.CreateRecord {
				continue
			}
			made++
			of.Records = append(of.Records, w.Record)
		}
		lent["shop"] = of
		kept := 0
		for _, s := range statuses {
			if s.State != protocol.StateUnknown {
				continue
			}
			for i := range d.Pods {
				if d.Pods[i].UID == s.UID {
					if err := st.Stock(d.Pods[i].Hash, templates[i]); err != nil {
						t.Fatal(err)
					}
					kept++
				}
			}
		}
		if kept > protocol.MaxStock || round > 20 {
			t.Fatalf("round %d: %d templates are asked for", round, kept)
		}
	}
}

func TestARefusedTwinIsTriedAgainLaterAndLater(t *testing.T) {
	t.Parallel()
	st := lender.NewState("a", epoch, 1)
	d, templates := list(1, 1, 1)
	if err := st.Accept(d); err != nil {
		t.Fatal(err)
	}
	if err := st.Stock(d.Pods[0].Hash, templates[0]); err != nil {
		t.Fatal(err)
	}
	lent := map[string]lender.Namespace{"shop": {Lent: true, Read: true}}
	at, last := now, time.Duration(0)
	for range 12 {
		writes := st.Decide(lent, lender.Path{}, at).Writes
		if len(writes) != 1 {
			t.Fatalf("at %v it writes %d objects", at, len(writes))
		}
		st.Refuse("shop/web-0", "TwinRefused", "exceeded quota", at)
		d := st.Decide(lent, lender.Path{}, at)
		writes, statuses, again := d.Writes, d.Statuses, d.Again
		if len(writes) != 0 || statuses[0].State != protocol.StateRefused || statuses[0].Message != "exceeded quota" {
			t.Fatalf("after a refusal it writes %d objects and says %+v", len(writes), statuses[0])
		}
		if wait := again.Sub(at); wait < last || wait > 5*time.Minute {
			t.Errorf("it waits %v after %v", wait, last)
		}
		at, last = again, again.Sub(at)
	}
}

// A borrower may ask for what its node does not have: what is not lent is not used.
func TestAPodWithADeviceThatIsNotLentIsRefused(t *testing.T) {
	t.Parallel()
	for device, want := range map[corev1.ResourceName]protocol.State{"example.com/gpu": protocol.StateRefused, "example.com/lent": protocol.StatePending} {
		st := lender.NewState("a", epoch, 1)
		d, templates := list(1, 1, 1)
		one := corev1.ResourceList{device: resource.MustParse("1")}
		templates[0].Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
		_, hash, err := protocol.EncodeTemplate(templates[0])
		if err != nil {
			t.Fatal(err)
		}
		d.Pods[0].Hash = hash
		d.Sign()
		if err := st.Accept(d); err != nil {
			t.Fatal(err)
		}
		if err := st.Stock(hash, templates[0]); err != nil {
			t.Fatal(err)
		}
		is := st.Decide(map[string]lender.Namespace{"shop": {Lent: true, Read: true, Resources: corev1.ResourceList{"example.com/lent": resource.MustParse("4")}}}, lender.Path{}, now)
		if said := is.Statuses[0]; said.State != want || (len(is.Writes) == 0) != (want == protocol.StateRefused) {
			t.Errorf("of a pod with %s it writes %d objects, and says %+v", device, len(is.Writes), said)
		}
	}
}

// A pod is deleted, corrected and created again under its name: what was refused was another one.
func TestARefusalIsThatOfOnePod(t *testing.T) {
	t.Parallel()
	st := lender.NewState("a", epoch, 1)
	lent := map[string]lender.Namespace{"shop": {Lent: true, Read: true}}
	for sequence, uid := range []string{"u-0", "u-1"} {
		d, templates := list(1, int64(sequence)+1, 1)
		d.Pods[0].UID = uid
		d.Sign()
		if err := st.Accept(d); err != nil {
			t.Fatal(err)
		}
		if err := st.Stock(d.Pods[0].Hash, templates[0]); err != nil {
			t.Fatal(err)
		}
		is := st.Decide(lent, lender.Path{}, now)
		if len(is.Writes) != 1 || is.Statuses[0].State == protocol.StateRefused {
			t.Errorf("of pod %s it writes %d objects, and says %+v", uid, len(is.Writes), is.Statuses[0])
		}
		st.Refuse("shop/web-0", "TwinRefused", "exceeded quota", now)
	}
}

// A pod that runs gets a new image. What this cluster refuses to change is tried again later and
// later, and the pod is said to run meanwhile.
func TestARefusedChangeLeavesTheTwinAsItIs(t *testing.T) {
	t.Parallel()
	st := lender.NewState("a", epoch, 1)
	d, templates := list(1, 1, 1)
	accept := func() {
		t.Helper()
		d.Sign()
		if err := st.Accept(d); err != nil {
			t.Fatal(err)
		}
	}
	accept()
	if err := st.Stock(d.Pods[0].Hash, templates[0]); err != nil {
		t.Fatal(err)
	}
	of := lender.Namespace{Lent: true, Read: true}
	next := func(at time.Time) (*lender.Write, *protocol.PodStatus, time.Time) {
		t.Helper()
		is := st.Decide(map[string]lender.Namespace{"shop": of}, lender.Path{}, at)
		if len(is.Writes) > 1 || len(is.Statuses) != 1 {
			t.Fatalf("it writes %d objects, and says something about %d pods", len(is.Writes), len(is.Statuses))
		}
		if len(is.Writes) == 0 {
			return nil, is.Statuses[0], is.Again
		}
		return is.Writes[0], is.Statuses[0], is.Again
	}
	w, _, _ := next(now)
	of.Records = []*corev1.PodTemplate{w.Record}
	w, _, _ = next(now)
	w.Twin.UID, w.Twin.Status.Phase = "t-1", corev1.PodRunning
	of.Twins = []*corev1.Pod{w.Twin}
	w, _, _ = next(now)
	of.Records[0] = w.Record // it has the twin's UID

	changed := templates[0].DeepCopy()
	changed.Spec.Containers[0].Image, changed.Spec.Containers[0].Command = "i:2", []string{"another"}
	_, hash, err := protocol.EncodeTemplate(changed)
	if err != nil {
		t.Fatal(err)
	}
	d.Sequence, d.Pods[0].Hash = 2, hash
	accept()
	if _, said, _ := next(now); !said.Outdated || said.State != protocol.StateMade {
		t.Errorf("without the new template it says %+v", said)
	}
	if err := st.Stock(hash, changed); err != nil {
		t.Fatal(err)
	}
	w, said, _ := next(now)
	if w == nil || w.Act != lender.ChangeRecord || said.Outdated || w.Record.Template.Spec.Containers[0].Image != "i:2" || len(w.Record.Template.Spec.Containers[0].Command) != 0 {
		t.Fatalf("it writes %+v and says %+v", w, said)
	}
	of.Records[0] = w.Record
	at, last := now, time.Duration(0)
	for range 5 {
		w, _, _ := next(at)
		if w == nil || w.Act != lender.UpdateTwin || w.Twin.Spec.Containers[0].Image != "i:2" {
			t.Fatalf("at %v it writes %+v", at, w)
		}
		st.Refuse("shop/web-0", "TwinRefused", "image policy", at)
		w, said, again := next(at)
		if w != nil || said.State != protocol.StateMade || again.Sub(at) <= last {
			t.Fatalf("after a refusal it writes %+v, says %+v, and waits %v after %v", w, said, again.Sub(at), last)
		}
		at, last = again, again.Sub(at)
	}
	w, _, _ = next(at)
	of.Twins[0] = w.Twin
	if w, _, again := next(at); w != nil || !again.IsZero() {
		t.Errorf("in the end it writes %+v again", w)
	}
}

func TestOnlyWhatIsLentAndReadIsDecidedOn(t *testing.T) {
	t.Parallel()
	d, _ := list(1, 1, 1)
	d.Pods[0].Hash, d.Pods[0].Deleting = "", true
	for name, c := range map[string]struct {
		of    map[string]lender.Namespace
		state protocol.State // empty: nothing is said
	}{
		"lent and read":          {map[string]lender.Namespace{"shop": {Lent: true, Read: true}}, protocol.StateGone},
		"lent, and not read yet": {map[string]lender.Namespace{"shop": {Lent: true}}, ""},
		"lent until now":         {map[string]lender.Namespace{"shop": {Read: true}}, protocol.StateGone},
		"never lent":             {nil, protocol.StateRefused},
	} {
		st := lender.NewState("a", epoch, 1)
		if err := st.Accept(d); err != nil {
			t.Fatal(err)
		}
		st.Gone(d.Pods[0].UID)
		statuses := st.Decide(c.of, lender.Path{}, now).Statuses
		var got protocol.State
		if len(statuses) == 1 {
			got = statuses[0].State
		}
		if got != c.state {
			t.Errorf("%s: of a deleted pod without a twin it says %q, want %q", name, got, c.state)
		}
	}
}

// configs returns a list of n ConfigMaps of a size, and their contents.
func configs(sequence int64, n, size int) (*protocol.Desired, map[string]*protocol.Content) {
	d := &protocol.Desired{Epoch: epoch, Term: 1, Sequence: sequence}
	contents := make(map[string]*protocol.Content)
	for i := range n {
		c := &protocol.Content{ConfigMap: &protocol.ConfigMap{Data: map[string]string{"k": fmt.Sprint(i, strings.Repeat("x", size))}}}
		text, hash, err := protocol.EncodeContent(c)
		if err != nil {
			panic(err)
		}
		contents[hash] = c
		d.Objects = append(d.Objects, protocol.Object{Kind: protocol.KindConfigMap, Namespace: "shop", Name: fmt.Sprintf("c-%04d", i), Hash: hash, Size: len(text)})
	}
	return d, contents
}

// However much a borrower asks for, the lender keeps no more than a part of it in memory, and
// stores no more than its budget.
func TestTheBytesOfCopiesAreLimited(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	st := lender.NewState("a", epoch, 1)
	d, contents := configs(1, 2*protocol.MaxCopies/size, size)
	if err := st.Accept(d); err != nil {
		t.Fatal(err)
	}
	lent := lender.Namespace{Lent: true, Read: true}
	stored := 0
	for range 20 {
		decided := st.Decide(map[string]lender.Namespace{"shop": lent}, lender.Path{}, now)
		for _, w := range decided.Objects {
			o := d.Objects[slices.IndexFunc(d.Objects, func(o protocol.Object) bool { return o.Name == w.Object.GetName() })]
			stored += o.Size
			lent.Copies = append(lent.Copies, lender.Copy{Kind: o.Kind, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: o.Name}, Hash: o.Hash, Size: o.Size})
		}
		kept := 0
		for _, hash := range decided.Needs {
			i := slices.IndexFunc(d.Objects, func(o protocol.Object) bool { return o.Hash == hash })
			if st.Put(hash, d.Objects[i].Size, contents[hash], now) == nil {
				kept += d.Objects[i].Size
			}
		}
		for hash, c := range contents { // those that it does not need, too
			i := slices.IndexFunc(d.Objects, func(o protocol.Object) bool { return o.Hash == hash })
			if !slices.Contains(decided.Needs, hash) && st.Put(hash, d.Objects[i].Size, c, now) == nil {
				kept += d.Objects[i].Size
			}
		}
		if kept > protocol.MaxShelf {
			t.Fatalf("%d bytes of contents are kept", kept)
		}
	}
	if stored > protocol.MaxCopies || stored < protocol.MaxCopies-2*size {
		t.Errorf("%d bytes are stored, want almost %d", stored, protocol.MaxCopies)
	}
	if err := st.Put(protocol.Hash(nil), 0, nil, now); err == nil {
		t.Error("a content is kept that no object of the list has")
	}
	next, _ := configs(2, 0, 0)
	if err := st.Accept(next); err != nil {
		t.Fatal(err)
	}
	if decided := st.Decide(map[string]lender.Namespace{"shop": lent}, lender.Path{}, now); len(decided.Objects) != len(lent.Copies) || decided.Objects[0].Act != lender.DeleteObject {
		t.Errorf("%d writes, want the deletion of all %d copies", len(decided.Objects), len(lent.Copies))
	}
}
