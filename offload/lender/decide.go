package lender

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// Annotations of a record.
const (
	// endingAnnotation is the grace period in seconds with which the twin ends. It is set before
	// the twin is deleted, so that no twin is made again after a restart of the lender.
	endingAnnotation = "strait.dev/ending"
	// twinAnnotation is the UID of the last twin, madeAnnotation the number of twins so far.
	twinAnnotation = "strait.dev/twin-uid"
	madeAnnotation = "strait.dev/twins-made"
	// finalAnnotation is the terminal status, in JSON. No twin is made after it.
	finalAnnotation = "strait.dev/final-status"
)

// Slot is what is known about one name in a namespace. Objects belong to caches.
type Slot struct {
	Peering         string
	Namespace, Name string
	Lent            bool                // the namespace is lent to the Peering
	Resources       corev1.ResourceList // that are lent
	Read            bool                // Record and Twin are known, even if there are none

	Listed   bool                    // a list is known
	Want     *protocol.Pod           // its entry; nil: none
	Template *corev1.PodTemplateSpec // of the entry; nil: not known
	Refused  *translate.Refusal      // why the template is refused; nil: it is not
	Gone     bool                    // the API server has confirmed that the pod has no record and no twin

	Record *corev1.PodTemplate // nil: none
	Twin   *corev1.Pod         // nil: none
	Supply supply              // of the record
}

// Act is what a Write does.
type Act int

// The acts.
const (
	CreateRecord Act = iota + 1
	UpdateRecord     // its annotations
	ChangeRecord     // its template
	DeleteRecord
	CreateTwin
	UpdateTwin
	DeleteTwin
	ConfirmGone // writes nothing: see State.Gone
	CreateObject
	UpdateObject
	DeleteObject
)

// Write is a change of one object. Updates and deletions apply to the version of the object in
// the Slot, or to none.
type Write struct {
	Act    Act
	Record *corev1.PodTemplate // to be created or updated, or the one to delete
	Twin   *corev1.Pod         // to be created, or the one to delete; of ConfirmGone, the one that is not there
	Grace  int64               // seconds, of DeleteTwin

	// What the API server itself has to confirm before the write, because caches may be late and
	// the write cannot be taken back: that the twin's record is this version of it, that the pod
	// has no record, or that it has no twin.
	IfRecord                 *corev1.PodTemplate
	UnlessRecord, UnlessTwin bool
	// TakenBack is whether the namespace is not lent any more: its admin takes the rights in it when
	// everything has ended, so then a refusal to read it confirms that, too.
	TakenBack bool
	// Absent are objects to which the twin refers, and which must not be those of this cluster.
	Absent []translate.Reference
}

func (w *Write) size() int {
	switch w.Act {
	case CreateRecord, UpdateRecord, ChangeRecord:
		return w.Record.Size()
	case CreateTwin, UpdateTwin:
		return w.Twin.Size()
	}
	return 0
}

// Decide returns the next write for a slot, nil if there is none, and what the borrower is told
// about the pod of the list, nil for nothing.
func Decide(s *Slot) (*Write, *protocol.PodStatus) {
	switch {
	case !s.Read && s.Lent:
		return nil, nil
	case !s.Read:
		return nil, s.refused("NamespaceNotLent", "the other cluster does not lend the namespace; its admin can: strait lend "+s.Namespace)
	case s.Record == nil && s.Twin != nil:
		// It was created late, by a request that seemed to have failed.
		w := s.endTwin(corev1.DefaultTerminationGracePeriodSeconds)
		if w != nil {
			w.UnlessRecord = true
		}
		return w, s.pending()
	case s.Record == nil:
		return s.begin()
	}
	if grace, ends := s.ends(); ends {
		return s.end(grace), s.ending()
	}
	return s.keep()
}

func (s *Slot) begin() (*Write, *protocol.PodStatus) {
	switch {
	case s.Want == nil:
		return nil, nil
	case s.Want.Deleting && s.Gone:
		return nil, s.status(protocol.StateGone)
	case s.Want.Deleting, s.Want.Once && s.Lent && !s.Gone:
		none := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: map[string]string{translate.OriginLabel: s.Want.UID}}}
		return &Write{Act: ConfirmGone, Twin: none, UnlessRecord: true, UnlessTwin: true, TakenBack: !s.Lent}, s.pending()
	case s.Want.Finished:
		return nil, nil // the consumer has its last status
	case !s.Lent:
		is := s.refused("NamespaceNotLent", "the other cluster does not lend the namespace any more")
		is.Ended = true
		return nil, is
	case s.Want.Once: // another client deleted the record, or strait unlend did while the link was down
		lost := translate.Lost()
		is := s.refused(lost.Reason, lost.Message)
		is.Ended = true
		return nil, is
	case s.Refused != nil:
		return nil, s.refused("FieldRefused", s.Refused.Error())
	case s.Template == nil:
		return nil, s.status(protocol.StateUnknown)
	}
	if name := translate.NotLent(&s.Template.Spec, s.Resources); name != "" {
		return nil, s.refused("ResourceNotLent", fmt.Sprintf("the other cluster does not lend %s; its admin can add it to spec.lend.resources of the Peering", name))
	}
	record := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name,
			Labels: map[string]string{translate.PeeringLabel: s.Peering, translate.OriginLabel: s.Want.UID},
		},
		Template: *s.Template.DeepCopy(),
	}
	metav1.SetMetaDataAnnotation(&record.ObjectMeta, translate.TemplateAnnotation, s.Want.Hash)
	return &Write{Act: CreateRecord, Record: record}, s.pending()
}

// ends reports whether the record is to end, and the grace period of its twin: at least 1 s,
// because 0 would remove the twin before its node has ended its containers.
func (s *Slot) ends() (grace int64, ends bool) {
	text, marked := s.Record.Annotations[endingAnnotation]
	grace, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		grace = twinGrace(s.Record)
	}
	switch {
	case s.Listed && s.Want != nil && s.Want.UID == s.uid():
		if !s.Want.Deleting {
			return grace, marked
		}
		if marked {
			return max(1, min(grace, s.Want.Grace)), true // a second deletion shortens the time
		}
		return max(1, s.Want.Grace), true
	case s.Listed:
		return grace, true // removed in the consumer, or replaced by another pod
	}
	return grace, marked
}

// end takes the next step of ending a record: mark it, end the twin, delete the record.
func (s *Slot) end(grace int64) *Write {
	switch text := strconv.FormatInt(grace, 10); {
	case s.Record.Annotations[endingAnnotation] != text:
		return s.annotate(map[string]string{endingAnnotation: text})
	case s.Twin == nil:
		return &Write{Act: DeleteRecord, Record: s.Record, UnlessTwin: true}
	case s.Twin.DeletionGracePeriodSeconds != nil && *s.Twin.DeletionGracePeriodSeconds > grace:
		return &Write{Act: DeleteTwin, Twin: s.Twin, Grace: grace}
	}
	return s.endTwin(grace)
}

// ending returns the status of a pod that ends, or that waits for the former pod of its name.
func (s *Slot) ending() *protocol.PodStatus {
	if s.Want != nil && s.Want.UID == s.uid() {
		return s.made()
	}
	return s.pending()
}

func (s *Slot) keep() (*Write, *protocol.PodStatus) {
	final := s.Record.Annotations[finalAnnotation] != ""
	last := s.Record.Annotations[twinAnnotation]
	switch {
	case s.Twin != nil && s.Twin.Labels[translate.OriginLabel] != s.uid():
		return s.endTwin(twinGrace(s.Record)), s.pending() // of a former record
	case s.Twin != nil && string(s.Twin.UID) != last:
		made := map[string]string{twinAnnotation: string(s.Twin.UID), madeAnnotation: strconv.Itoa(int(s.count()) + 1)}
		return s.annotate(made), s.made()
	case s.Twin != nil && !final && finished(s.Twin, s.Record):
		return s.finish(&s.Twin.Status), s.made()
	case !final && s.Lent && s.outdated() && s.Template != nil && s.Refused == nil:
		w := &Write{Act: ChangeRecord, Record: s.Record.DeepCopy()}
		translate.ChangeRecord(w.Record, s.Template, s.Want.Hash)
		return w, s.made()
	case !final && s.twinOutdated():
		w := &Write{Act: UpdateTwin, Twin: s.Twin.DeepCopy(), IfRecord: s.Record}
		translate.ChangeTwin(w.Twin, s.Record)
		return w, s.made()
	case s.Twin != nil, final:
		return nil, s.made()
	case (last != "" || s.Want != nil && s.Want.Once) && !translate.RestartsAlways(&s.Record.Template.Spec):
		w := s.finish(translate.Lost())
		w.UnlessTwin = true
		return w, s.made()
	case last == "" && !s.Listed:
		return nil, nil // its creation may have been late: the pod may be gone in the consumer
	case !s.Lent:
		return nil, s.refused("NamespaceNotLent", "the other cluster does not lend the namespace any more")
	}
	if d := s.Supply.denied; d != nil && s.Supply.waits {
		return nil, s.refused(d.reason, d.message)
	}
	if s.Supply.waits {
		return nil, s.made()
	}
	return &Write{Act: CreateTwin, Twin: translate.Twin(s.Record), IfRecord: s.Record, Absent: s.Supply.absent}, s.made()
}

func (s *Slot) outdated() bool {
	return s.Record != nil && s.Want != nil && s.Want.UID == s.uid() && !s.Want.Deleting && !s.Want.Finished &&
		s.Want.Hash != protocol.Hash(nil) && s.Want.Hash != s.Record.Annotations[translate.TemplateAnnotation]
}

// twinOutdated reports whether the twin has a former template of the record.
func (s *Slot) twinOutdated() bool {
	return s.Record != nil && s.Twin != nil && s.Twin.DeletionTimestamp == nil &&
		s.Twin.Annotations[translate.TemplateAnnotation] != s.Record.Annotations[translate.TemplateAnnotation]
}

// finished reports whether a twin's phase is final for the pod. A kubelet also reports a final
// phase of a pod that is deleted; a twin of a pod that restarts always is then made again.
func finished(twin *corev1.Pod, record *corev1.PodTemplate) bool {
	return translate.Final(twin.Status.Phase) && (twin.DeletionTimestamp == nil || !translate.RestartsAlways(&record.Template.Spec))
}

func (s *Slot) finish(status *corev1.PodStatus) *Write {
	text, err := json.Marshal(translate.Report(status))
	if err != nil {
		panic(err) // plain data can be encoded
	}
	return s.annotate(map[string]string{finalAnnotation: string(text)})
}

func (s *Slot) annotate(with map[string]string) *Write {
	record := s.Record.DeepCopy()
	if record.Annotations == nil {
		record.Annotations = make(map[string]string)
	}
	maps.Copy(record.Annotations, with)
	return &Write{Act: UpdateRecord, Record: record}
}

// endTwin deletes the twin, unless that has begun.
func (s *Slot) endTwin(grace int64) *Write {
	if s.Twin.DeletionTimestamp != nil {
		return nil
	}
	return &Write{Act: DeleteTwin, Twin: s.Twin, Grace: grace}
}

func (s *Slot) uid() string { return s.Record.Labels[translate.OriginLabel] }

func (s *Slot) count() int32 {
	n, err := strconv.ParseInt(s.Record.Annotations[madeAnnotation], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// twinGrace is the grace period with which a record's twin ends unless the consumer names one.
func twinGrace(record *corev1.PodTemplate) int64 {
	if g := record.Template.Spec.TerminationGracePeriodSeconds; g != nil {
		return max(1, *g)
	}
	return corev1.DefaultTerminationGracePeriodSeconds
}

// made returns the status of a record's pod: the terminal one if there is one, otherwise that
// of the twin.
func (s *Slot) made() *protocol.PodStatus {
	is := &protocol.PodStatus{UID: s.uid(), State: protocol.StatePending, Made: s.count()}
	switch text := s.Record.Annotations[finalAnnotation]; {
	case text != "":
		last := new(corev1.PodStatus)
		if err := json.Unmarshal([]byte(text), last); err != nil {
			last = translate.Lost() // another client wrote it
		}
		is.State, is.Status = protocol.StateMade, last
	case s.Twin != nil && s.Twin.Labels[translate.OriginLabel] == s.uid():
		is.State, is.Status = protocol.StateMade, translate.Report(&s.Twin.Status)
		if translate.Final(is.Status.Phase) && !finished(s.Twin, s.Record) {
			is.Status.Phase = corev1.PodRunning // it will be made again
		}
	}
	return is
}

func (s *Slot) pending() *protocol.PodStatus { return s.status(protocol.StatePending) }

func (s *Slot) refused(reason, message string) *protocol.PodStatus {
	is := s.status(protocol.StateRefused)
	if is != nil {
		is.Reason, is.Message = reason, message
	}
	return is
}

// status returns a status of the pod in the list, nil if there is none.
func (s *Slot) status(state protocol.State) *protocol.PodStatus {
	if s.Want == nil {
		return nil
	}
	return &protocol.PodStatus{UID: s.Want.UID, State: state}
}
