package nodehelper

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/nodeprobe"
)

// Reasons of the condition Ready, worst first.
const (
	reasonKernel     = "KernelRefuses"
	reasonNoLink     = "GatewayWithoutLink"
	reasonNoAnswer   = "GatewayUnreachable"
	reasonNoGateways = "NoGateways"
	reasonReady      = "GatewaysReachable"
)

// maxMessage is the maximum length of messages in the API, in bytes.
const maxMessage = 1024

// status returns the status of the node from the desired state, the error of the kernel
// (empty: none), the gateways that answer, and the destinations to which packets cannot be
// sent, by VNI.
func status(out output, kernel string, answers map[string]nodeprobe.State, failing map[uint32]netip.Addr) v1alpha1.NodeAttachmentStatus {
	if out.desired.Nothing {
		return uninstallStatus(out.gone, kernel)
	}
	s := v1alpha1.NodeAttachmentStatus{RouteConflicts: routeConflicts(out.conflicts)}
	reason, message := reasonReady, "all gateways answer"
	worse := func(to, why string) {
		order := []string{reasonKernel, reasonNoLink, reasonNoAnswer, reasonReady}
		if slices.Index(order, to) < slices.Index(order, reason) {
			reason, message = to, why
		}
	}
	used, note := map[v1alpha1.Encapsulation]int{}, ""
	for _, g := range out.gateways {
		entry := v1alpha1.NodeGateway{Name: g.Name, VNI: int32(g.VNI), Encapsulation: v1alpha1.Encapsulation(g.Encapsulation)}
		if g.source.IsValid() {
			entry.Source = v1alpha1.IP(g.source.String())
		}
		if g.problem == "" {
			entry.State, entry.InUse, entry.Refused = g.state, g.inUse, g.refused
		}
		switch {
		case g.problem != "":
			entry.Message = client.Clip(g.problem, maxMessage)
			worse(reasonNoLink, fmt.Sprintf("gateway %s: %s", g.Name, g.problem))
		case !isKey(answers, g.Name):
			noAnswer := fmt.Sprintf("%s does not answer over %s to %s", g.probe(out.desired), g.Encapsulation, g.Underlay)
			entry.Message = joinSentences(noAnswer, sendFailure(g, failing), g.note)
			worse(reasonNoAnswer, fmt.Sprintf("gateway %s: %s; check that its pod runs, that network policies and firewalls allow UDP 6091 and 6092 in both directions, and that packets leave from an address in spec.underlayAddresses", g.Name, noAnswer))
		default:
			entry.Ready, entry.Message = true, joinSentences(notUsed(g), sendFailure(g, failing), g.note)
		}
		if g.problem == "" {
			used[entry.Encapsulation]++
			note = g.note // the same for all
		}
		if entry.VNI > 0 { // the API server rejects an entry without a VNI
			s.Gateways = append(s.Gateways, entry)
		}
	}
	for e := range used {
		s.Encapsulations = append(s.Encapsulations, e)
	}
	slices.SortFunc(s.Encapsulations, func(a, b v1alpha1.Encapsulation) int {
		return cmp.Or(cmp.Compare(used[b], used[a]), cmp.Compare(a, b))
	})
	if kernel != "" {
		worse(reasonKernel, kernel)
	}
	if reason == reasonReady && len(out.gateways) == 0 {
		reason, message = reasonNoGateways, "there is no gateway to reach"
	}
	message = joinSentences(append([]string{message, note}, out.problems...)...)
	ready := metav1.ConditionFalse
	if reason == reasonReady || reason == reasonNoGateways {
		ready = metav1.ConditionTrue
	}
	s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: reason, Message: message}}
	return s
}

func notUsed(g gateway) string {
	if g.inUse {
		return ""
	}
	switch g.state {
	case v1alpha1.NoLinks:
		return "not in use: no link of the gateway to the remote cluster is up"
	case v1alpha1.Leaving:
		return "not in use: the gateway shuts down"
	case v1alpha1.Joining:
		return fmt.Sprintf("not in use: the gateway forwards again, for less than %v", joinAfter)
	}
	return ""
}

func sendFailure(g gateway, failing map[uint32]netip.Addr) string {
	to, fails := failing[g.VNI]
	if !fails {
		return ""
	}
	return fmt.Sprintf("the kernel does not send all packets to %s; check that the node has a route to it, and that no firewall on the node blocks UDP 6091", to)
}

func joinSentences(all ...string) string {
	said := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "" })
	return client.Clip(strings.Join(said, ". "), maxMessage)
}

// statusToWrite completes a status for writing: the transition time of a condition changes
// only with its status.
func statusToWrite(want, have v1alpha1.NodeAttachmentStatus, generation int64, now time.Time) (to v1alpha1.NodeAttachmentStatus, differs bool) {
	want.ObservedGeneration = generation
	want.Conditions = slices.Clone(want.Conditions)
	for i := range want.Conditions {
		c := &want.Conditions[i]
		c.ObservedGeneration = generation
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		if old := meta.FindStatusCondition(have.Conditions, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	have.Gateways = slices.Clone(have.Gateways) // the API server keeps its own order
	slices.SortFunc(have.Gateways, func(a, b v1alpha1.NodeGateway) int { return cmp.Compare(a.Name, b.Name) })
	return want, !reflect.DeepEqual(want, have)
}
