package offload_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/lender"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// world is two clusters, the link between them, and the runs of both agents. Everything that is
// not a decision of an agent is modelled: the API servers with their versions and
// preconditions, caches that are late, requests that are lost, repeated and reordered, and what
// users and kubelets do. Time passes only when the test says so.
type world struct {
	t    *testing.T
	rand *rand.Rand
	now  time.Time
	n    int // for UIDs and versions

	turmoil int // percent by which failures, deletions and late caches are more frequent

	// The consumer.
	pods       map[string]*corev1.Pod // by name
	consumerUp bool
	term       int32 // of the newest borrower
	borrowers  []*borrowing
	configs    map[string]string // ConfigMaps: one value each, by name
	lacked     map[string]bool   // those that did not exist for a moment

	// The provider.
	records    map[string]*corev1.PodTemplate
	twins      map[string]*corev1.Pod
	copies     map[string]*corev1.ConfigMap
	providerUp bool
	stored     int32 // term
	lending    *lending

	jobsEnd  bool // containers that may end do
	linkUp   bool
	inFlight [][]byte // lists

	// What happened, by UID of the consumer's pod.
	live    map[string]bool // the pod exists in the consumer and is not to be deleted
	removed map[string]bool // the consumer removed the pod object on the word of the lender
	made    map[string]int  // twins
	final   map[string]bool // the terminal status is recorded or reported
	policy  map[string]corev1.RestartPolicy
}

// borrowing is one run of the borrower. An old one may go on for a while after a new one began.
type borrowing struct {
	term     int32
	sequence int64
	cache    []*corev1.Pod
	begun    bool     // the lender has fenced former runs, and the cache was filled after that
	heard    *lending // whose stream it reads; nil: none
	said     map[string]*protocol.PodStatus
	sent     string // digest and epoch of the last list
	needs    []string
	shelf    *borrower.Shelf
}

// lending is one run of the lender.
type lending struct {
	state    *lender.State
	records  []*corev1.PodTemplate
	twins    []*corev1.Pod
	copies   []lender.Copy
	statuses []*protocol.PodStatus
	needs    []string
}

const space = "shop"

var (
	virtual = translate.Node{Name: "strait-b", Addresses: []string{"10.0.1.9"}}
	names   = []string{"web-0", "web-1", "job"}
	configs = []string{"config", "extra"} // a pod needs the first one, and may lack the second one
	reach   = merge.Mappings([]v1alpha1.SeenPrefix{{CIDR: "10.0.0.0/16", SeenAs: "10.71.0.0/16"}})
)

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 53)), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		pods: make(map[string]*corev1.Pod), records: make(map[string]*corev1.PodTemplate), twins: make(map[string]*corev1.Pod),
		configs: make(map[string]string), lacked: make(map[string]bool), copies: make(map[string]*corev1.ConfigMap),
		consumerUp: true, providerUp: true, linkUp: true,
		live: make(map[string]bool), removed: make(map[string]bool), made: make(map[string]int), final: make(map[string]bool), policy: make(map[string]corev1.RestartPolicy),
	}
	for _, name := range configs {
		w.setConfig(name)
	}
	w.startBorrower(false)
	w.startLender()
	return w
}

func (w *world) next() int { w.n++; return w.n }

func (w *world) version() string { return strconv.Itoa(w.next()) }

// chance is true with a probability of percent.
func (w *world) chance(percent int) bool { return w.rand.IntN(100) < percent }

func pick[T any](w *world, from []T) T { return from[w.rand.IntN(len(from))] }

// sorted returns copies of objects by name, as a cache has them.
func sorted[T interface {
	metav1.Object
	DeepCopy() T
}](objects map[string]T) (all []T) {
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		all = append(all, objects[name].DeepCopy())
	}
	return all
}

// --- users ---

func (w *world) createPod(name string, policy corev1.RestartPolicy) {
	if w.pods[name] != nil {
		return
	}
	uid := fmt.Sprintf("u-%d", w.next())
	w.pods[name] = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name, UID: types.UID(uid), ResourceVersion: w.version()},
		Spec: corev1.PodSpec{NodeName: virtual.Name, RestartPolicy: policy, Containers: []corev1.Container{{Name: "c", Image: "i", EnvFrom: []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: configs[0]}}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: configs[1]}, Optional: new(true)}},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	w.live[uid], w.policy[uid] = true, policy
}

// deletePod is kubectl delete: the API server removes a finished pod at once, and leaves
// another one to its node.
func (w *world) deletePod(name string) {
	p := w.pods[name]
	if p == nil {
		return
	}
	delete(w.live, string(p.UID))
	if translate.Final(p.Status.Phase) {
		delete(w.pods, name)
		return
	}
	at := metav1.NewTime(w.now)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.ResourceVersion = &at, new(int64(30)), w.version()
}

// changePod changes what may change in a pod that runs.
func (w *world) changePod(name string) {
	p := w.pods[name]
	if p == nil || translate.Final(p.Status.Phase) || p.DeletionTimestamp != nil {
		return
	}
	p.ResourceVersion = w.version()
	p.Labels, p.Spec.Containers[0].Image = map[string]string{"change": p.ResourceVersion}, "i:"+p.ResourceVersion
}

// setConfig gives a ConfigMap a new value.
func (w *world) setConfig(name string) { w.configs[name] = w.version() }

// deleteConfig deletes a ConfigMap.
func (w *world) deleteConfig(name string) {
	delete(w.configs, name)
	w.lacked[name] = true
}

// killTwin is kubectl delete in the provider.
func (w *world) killTwin(name string) {
	t := w.twins[name]
	if t == nil || t.DeletionTimestamp != nil || w.records[name] == nil || w.records[name].Annotations["strait.dev/twin-uid"] != string(t.UID) {
		return // the rules hold from when the lender has seen a twin
	}
	at := metav1.NewTime(w.now)
	t.DeletionTimestamp, t.DeletionGracePeriodSeconds, t.ResourceVersion = &at, new(int64(30)), w.version()
}

// --- the provider's kubelet ---

func (w *world) kubelet(name string) {
	t := w.twins[name]
	switch {
	case t == nil:
		return
	case t.DeletionTimestamp != nil && w.chance(50):
		delete(w.twins, name)
		return
	case t.DeletionTimestamp != nil:
		t.Status.Phase = corev1.PodFailed // its containers have ended
	case t.Status.Phase == corev1.PodPending:
		t.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.2.9", PodIPs: []corev1.PodIP{{IP: "10.0.2.9"}},
			Conditions: []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}}
	case t.Status.Phase == corev1.PodRunning && t.Spec.RestartPolicy != corev1.RestartPolicyAlways && w.jobsEnd && w.chance(30):
		t.Status.Phase = corev1.PodSucceeded
	}
	t.ResourceVersion = w.version()
}

// --- the borrower ---

func (w *world) startBorrower(keepOld bool) {
	if !keepOld {
		w.borrowers = nil
	}
	w.term++
	w.borrowers = append(w.borrowers, &borrowing{term: w.term, shelf: borrower.NewShelf()})
}

// listen reads the status stream from its beginning, or what is new in it.
func (w *world) listen(b *borrowing) {
	b.heard = nil
	if !w.linkUp || !w.providerUp {
		return // a lender whose API server is silent sends no heartbeat
	}
	if b.term < w.lending.state.Term || !b.begun && !w.consumerUp {
		return
	}
	w.stored = max(w.stored, b.term)
	w.lending.state.Fence(b.term)
	if !b.begun {
		b.begun, b.cache = true, sorted(w.pods)
	}
	b.heard, b.said = w.lending, make(map[string]*protocol.PodStatus)
	for _, s := range w.lending.statuses {
		b.said[s.UID] = s
	}
	b.needs = w.lending.needs
}

func describe(pod *corev1.Pod) *borrower.Template { return borrower.Describe(pod, virtual) }

// content returns the encoded content of a ConfigMap.
func (w *world) content(name string) (text []byte, hash string) {
	text, hash, err := protocol.EncodeContent(&protocol.Content{ConfigMap: &protocol.ConfigMap{Data: map[string]string{"value": w.configs[name]}}})
	if err != nil {
		w.t.Fatal(err)
	}
	return text, hash
}

// read reads the ConfigMaps that are due.
func (w *world) read(b *borrowing) {
	b.shelf.Refer(b.cache, describe)
	for _, o := range b.shelf.Due(w.now, 100) {
		switch _, exists := w.configs[o.Name]; {
		case !w.consumerUp || w.chance(w.turmoil/3):
			b.shelf.Failed(o.Key(), "no answer", w.now)
		case !exists:
			b.shelf.Absent(o.Key(), w.now)
		default:
			text, hash := w.content(o.Name)
			b.shelf.Found(o.Key(), hash, len(text), w.now)
		}
	}
}

// sendContents sends what the lender needs.
func (w *world) sendContents(b *borrowing) {
	for _, o := range b.shelf.Having(b.needs) {
		text, hash := w.content(o.Name)
		if !w.consumerUp || hash != o.Hash {
			continue
		}
		c, err := protocol.DecodeContent(text, hash)
		if err != nil {
			w.t.Fatal(err)
		}
		_ = w.lending.state.Put(hash, len(text), c, w.now) // the list may be in transit
	}
}

// borrow is one pass of a borrower.
func (w *world) borrow(b *borrowing) {
	if !b.begun {
		return
	}
	if w.consumerUp && w.chance(70-w.turmoil) {
		b.cache = sorted(w.pods)
	}
	w.read(b)
	list, objects := borrower.List(b.cache, describe, b.shelf)
	if b.heard != nil && w.linkUp {
		epoch := b.heard.state.Epoch
		d := protocol.Desired{Epoch: epoch, Term: b.term, Sequence: b.sequence + 1, Pods: list, Objects: objects}
		if sent := d.Sign() + epoch; sent != b.sent {
			b.sequence++
			text, err := d.Encode()
			if err != nil {
				w.t.Fatal(err)
			}
			w.inFlight = append(w.inFlight, text)
			if w.chance(90) {
				b.sent = sent // the response arrived
			}
		}
		for _, pod := range b.cache {
			if said := b.said[string(pod.UID)]; said != nil && (said.State == protocol.StateUnknown || said.Outdated) && pod.DeletionTimestamp == nil && b.heard == w.lending {
				text, hash, err := borrower.Encode(pod, virtual)
				if err != nil {
					w.t.Fatal(err)
				}
				template, err := protocol.DecodeTemplate(text, hash)
				if err != nil {
					w.t.Fatal(err)
				}
				_ = w.lending.state.Stock(hash, template) // the list may be in transit
			}
		}
		if b.heard == w.lending {
			w.sendContents(b)
		}
	}
	v := &borrower.View{
		Peering: "b", Node: virtual, Fresh: b.heard != nil, Lent: []string{space}, Now: metav1.NewTime(w.now), Reach: reach, Shelf: b.shelf,
	}
	for _, pod := range b.cache {
		if write := borrower.Decide(pod, describe(pod), b.said[string(pod.UID)], borrower.ConsentGiven, v); write != nil && w.consumerUp {
			w.writePod(write)
		}
	}
}

// writePod is the API server of the consumer.
func (w *world) writePod(write *borrower.Write) {
	is, uid := w.pods[write.Pod.Name], string(write.Pod.UID)
	if is == nil || is.UID != write.Pod.UID || is.ResourceVersion != write.Pod.ResourceVersion {
		return
	}
	if write.Status != nil {
		if translate.Final(is.Status.Phase) && write.Status.Phase != is.Status.Phase {
			w.t.Errorf("the phase of %s changes from %s to %s", uid, is.Status.Phase, write.Status.Phase)
		}
		if translate.Final(write.Status.Phase) {
			w.final[uid] = true
		}
		is.Status, is.ResourceVersion = *write.Status, w.version()
		return
	}
	if is.DeletionTimestamp == nil {
		w.t.Errorf("pod %s is removed, and was not deleted", uid)
	}
	if t := w.twins[is.Name]; t != nil && t.Labels[translate.OriginLabel] == uid {
		w.t.Errorf("pod %s is removed while its twin exists", uid)
	}
	w.removed[uid] = true
	delete(w.pods, is.Name)
}

// --- the lender ---

func (w *world) startLender() {
	w.lending = &lending{state: lender.NewState("a", protocol.Hash([]byte(w.version())), w.stored)}
	w.lending.fill(w)
}

// fill brings the lender's caches up to date.
func (l *lending) fill(w *world) {
	l.records, l.twins, l.copies = sorted(w.records), sorted(w.twins), w.described()
}

// described returns what the lender's cache has of the copies.
func (w *world) described() (all []lender.Copy) {
	for _, m := range sorted(w.copies) {
		text, hash, err := protocol.EncodeContent(translate.ConfigMapContent(m))
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, lender.Copy{Kind: protocol.KindConfigMap, ObjectMeta: m.ObjectMeta, Hash: hash, Size: len(text)})
	}
	return all
}

// deliver hands a list to the lender, as its server does.
func (w *world) deliver(text []byte) {
	d, err := protocol.DecodeDesired(text)
	if err != nil {
		return // cut short
	}
	st := w.lending.state
	if st.Check(d) != nil || d.Term > st.Term && !w.providerUp {
		return
	}
	w.stored = max(w.stored, d.Term)
	if err := st.Accept(d); err != nil {
		w.t.Error(err)
	}
}

// lend is one pass of the lender.
func (w *world) lend() {
	l := w.lending
	if w.providerUp && w.chance(70-w.turmoil) {
		l.records = sorted(w.records)
	}
	if w.providerUp && w.chance(70-w.turmoil) {
		l.twins = sorted(w.twins)
	}
	if w.providerUp && w.chance(70-w.turmoil) {
		l.copies = w.described()
	}
	known := map[string]lender.Namespace{space: {Lent: true, Read: true, Records: l.records, Twins: l.twins, Copies: l.copies}}
	d := l.state.Decide(known, lender.Path{}, w.now)
	l.statuses, l.needs = d.Statuses, d.Needs
	if !w.providerUp {
		return
	}
	for _, write := range d.Objects {
		w.writeCopy(write)
	}
	for _, write := range d.Writes {
		w.write(write)
	}
}

// writeCopy is the API server of the provider for ConfigMaps.
func (w *world) writeCopy(write *lender.ObjectWrite) {
	name := write.Object.GetName()
	is := w.copies[name]
	if write.Act == lender.CreateObject && is != nil || write.Act != lender.CreateObject && (is == nil || is.ResourceVersion != write.Object.GetResourceVersion()) {
		return
	}
	if write.Act == lender.DeleteObject {
		for _, twin := range w.twins {
			if uid := twin.Labels[translate.OriginLabel]; w.live[uid] && !w.final[uid] && !w.lacked[name] {
				w.t.Errorf("the copy of %s is deleted, which a pod needs and the consumer has", name)
			}
		}
		delete(w.copies, name)
		return
	}
	copied := write.Object.(*corev1.ConfigMap).DeepCopy()
	copied.UID, copied.ResourceVersion = "m", w.version()
	w.copies[name] = copied
}

// write is the API server of the provider, after the lender has read what the write assumes.
func (w *world) write(write *lender.Write) {
	var name, uid string
	if write.Record != nil {
		name, uid = write.Record.Name, write.Record.Labels[translate.OriginLabel]
	} else {
		name, uid = write.Twin.Name, write.Twin.Labels[translate.OriginLabel]
	}
	record, twin := w.records[name], w.twins[name]
	if write.UnlessTwin && twin != nil && twin.Labels[translate.OriginLabel] == uid ||
		write.UnlessRecord && record != nil && record.Labels[translate.OriginLabel] == uid ||
		write.IfRecord != nil && (record == nil || record.ResourceVersion != write.IfRecord.ResourceVersion) {
		return
	}
	switch write.Act {
	case lender.ConfirmGone:
		w.lending.state.Gone(uid)
	case lender.CreateRecord:
		if record == nil {
			is := write.Record.DeepCopy()
			is.UID, is.ResourceVersion = types.UID("r-"+w.version()), w.version()
			w.records[name] = is
		}
	case lender.UpdateRecord, lender.ChangeRecord:
		if record != nil && record.ResourceVersion == write.Record.ResourceVersion {
			is := write.Record.DeepCopy()
			is.ResourceVersion = w.version()
			w.records[name] = is
			w.final[uid] = w.final[uid] || is.Annotations["strait.dev/final-status"] != ""
		}
	case lender.DeleteRecord:
		if record != nil && record.ResourceVersion == write.Record.ResourceVersion {
			delete(w.records, name)
		}
	case lender.CreateTwin:
		if twin == nil {
			w.createTwin(name, uid, write.Twin)
		}
	case lender.UpdateTwin:
		if twin != nil && twin.ResourceVersion == write.Twin.ResourceVersion {
			is := write.Twin.DeepCopy()
			is.ResourceVersion = w.version()
			w.twins[name] = is
		}
	case lender.DeleteTwin:
		if twin != nil && twin.UID == write.Twin.UID {
			if w.live[uid] {
				w.t.Errorf("the twin of %s is deleted, and the consumer wants it", uid)
			}
			at := metav1.NewTime(w.now)
			twin.DeletionTimestamp, twin.DeletionGracePeriodSeconds, twin.ResourceVersion = &at, &write.Grace, w.version()
		}
	}
}

func (w *world) createTwin(name, uid string, twin *corev1.Pod) {
	if w.made[uid] == 0 && w.copies[configs[0]] == nil {
		w.t.Errorf("a twin of %s is made before its ConfigMap", uid)
	}
	switch {
	case w.removed[uid]:
		w.t.Errorf("a twin of %s is made, which the consumer removed on the word of the lender", uid)
	case w.final[uid]:
		w.t.Errorf("a twin of %s is made, which has finished", uid)
	case w.made[uid] > 0 && w.policy[uid] != corev1.RestartPolicyAlways:
		w.t.Errorf("a second twin of %s is made, whose restart policy is %s", uid, w.policy[uid])
	}
	w.made[uid]++
	is := twin.DeepCopy()
	is.UID, is.ResourceVersion, is.Status = types.UID("t-"+w.version()), w.version(), corev1.PodStatus{Phase: corev1.PodPending}
	w.twins[name] = is
}
