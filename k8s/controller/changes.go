package controller

import (
	"maps"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/nodeinfo"
)

// follow wakes the controller when an object is added, deleted or changed in a relevant
// field. Kubelets and gateways often write fields that no pass reads.
func (c *controller) follow(informer cache.SharedIndexInformer, same func(was, is any) bool) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.wakeUp() },
		DeleteFunc: func(any) { c.wakeUp() },
		UpdateFunc: func(was, is any) {
			switch {
			case was.(metav1.Object).GetUID() != is.(metav1.Object).GetUID() || !same(was, is):
				c.wakeUp()
			case !sameAnswers(was, is):
				c.wakeBatched()
			}
		},
	})
	return err
}

func (c *controller) wakeUp() { c.wake.Set() }

// batchDelay is the time for which status reports of nodes are collected before a pass:
// when a gateway starts, every node reports it.
const batchDelay = time.Second

func (c *controller) wakeBatched() {
	if !c.waking.Swap(true) {
		time.AfterFunc(batchDelay, func() {
			c.waking.Store(false)
			c.wakeUp()
		})
	}
}

func sameNode(was, is any) bool {
	a, b := was.(*corev1.Node), is.(*corev1.Node)
	return maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Spec.Taints, b.Spec.Taints) &&
		a.Spec.Unschedulable == b.Spec.Unschedulable && a.Spec.ProviderID == b.Spec.ProviderID && slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs) &&
		slices.Equal(a.Status.Addresses, b.Status.Addresses) && slices.Equal(nodeinfo.Readiness(a), nodeinfo.Readiness(b))
}

func samePeering(was, is any) bool {
	a, b := was.(*v1alpha1.Peering), is.(*v1alpha1.Peering)
	return a.Generation == b.Generation && reflect.DeepEqual(a.Status, b.Status)
}

func sameReport(was, is any) bool {
	a, b := was.(*v1alpha1.GatewayReport), is.(*v1alpha1.GatewayReport)
	return reflect.DeepEqual(a.OwnerReferences, b.OwnerReferences) && reflect.DeepEqual(withoutMeasurements(a), withoutMeasurements(b))
}

// withoutMeasurements returns a report without the values that gateways measure
// continuously. A pass reads of them only whether there was a handshake.
func withoutMeasurements(r *v1alpha1.GatewayReport) v1alpha1.GatewayReportStatus {
	s := r.Status
	s.Links, s.Summary = slices.Clone(s.Links), v1alpha1.GatewaySummary{}
	for i := range s.Links {
		l := &s.Links[i]
		l.RTT, l.Endpoint = nil, ""
		if l.LastHandshake != nil {
			l.LastHandshake = &metav1.Time{}
		}
	}
	return s
}

func sameMapping(was, is any) bool {
	a, b := was.(*v1alpha1.AddressMapping), is.(*v1alpha1.AddressMapping)
	return a.Generation == b.Generation && reflect.DeepEqual(a.Status, b.Status)
}

// sameAnswers compares what node helpers report: which gateways answer, the source addresses
// of overlay packets, refused packets, and conflicts of routes.
func sameAnswers(was, is any) bool {
	a, ok := was.(*v1alpha1.NodeAttachment)
	b, ok2 := is.(*v1alpha1.NodeAttachment)
	return !ok || !ok2 || slices.EqualFunc(a.Status.Gateways, b.Status.Gateways, func(a, b v1alpha1.NodeGateway) bool {
		return a.Name == b.Name && a.Ready == b.Ready && a.Source == b.Source && slices.Equal(a.Refused, b.Refused)
	}) && slices.Equal(a.Status.RouteConflicts, b.Status.RouteConflicts)
}

// sameAttachment compares the fields that passes write, but not those that change with pods.
func sameAttachment(was, is any) bool {
	a, b := was.(*v1alpha1.NodeAttachment).Spec, is.(*v1alpha1.NodeAttachment).Spec
	a.PodAddresses, b.PodAddresses = nil, nil
	return reflect.DeepEqual(a, b)
}

func sameClaim(was, is any) bool {
	return was.(*v1alpha1.AddressClaim).Status == is.(*v1alpha1.AddressClaim).Status
}

// sameSpec compares objects whose status no pass reads, or whose status may be delayed; see
// sameAnswers.
func sameSpec(was, is any) bool {
	return was.(metav1.Object).GetGeneration() == is.(metav1.Object).GetGeneration()
}

// samePod compares the relevant fields of a gateway's pod: its readiness, whether it ends, its
// node or that it has none, and its addresses.
func samePod(was, is any) bool {
	a, b := was.(*corev1.Pod), is.(*corev1.Pod)
	return (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) && unschedulable(a) == unschedulable(b) && podReady(a) == podReady(b) && podRuns(a) == podRuns(b) && restarts(a) == restarts(b) && a.Spec.NodeName == b.Spec.NodeName && slices.Equal(addressesOfPod(a), addressesOfPod(b))
}

func sameStatefulSet(was, is any) bool {
	a, b := was.(*appsv1.StatefulSet), is.(*appsv1.StatefulSet)
	return a.Generation == b.Generation && complete(a) == complete(b) && a.Annotations[rolloutAnnotation] == b.Annotations[rolloutAnnotation]
}

func sameService(was, is any) bool {
	a, b := was.(*corev1.Service), is.(*corev1.Service)
	return reflect.DeepEqual(a.Spec, b.Spec) && reflect.DeepEqual(a.Status.LoadBalancer, b.Status.LoadBalancer)
}
