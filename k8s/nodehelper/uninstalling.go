package nodehelper

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// uninstalling is whether Strait is being uninstalled: then the node is to have nothing of it.
//
// Whoever uninstalls Strait waits until the node says so, in the condition Released. So
// while the condition is true, nothing is set up: before a node that comes back touches
// its kernel, it takes the condition away.
type uninstalling struct {
	known bool // there was a ClusterNetwork
	now   bool
	gone  bool // nothing of ours is in the kernel, and nothing is wanted there
}

// observe takes note of the ClusterNetwork, nil if there is none, and reports whether the
// node is to have nothing. An object that goes says nothing: in the course of an uninstall
// it goes before the helper does, and what it said last holds.
func (l *uninstalling) observe(network *v1alpha1.ClusterNetwork) bool {
	if network != nil {
		_, asked := network.Annotations[v1alpha1.UninstallAnnotation]
		l.known, l.now = true, asked
	}
	return l.now
}

// mayChange reports whether the kernel may be changed: not before it is known whether Strait is
// being uninstalled, nor while the node still says that it has nothing.
func (l *uninstalling) mayChange(attachment *v1alpha1.NodeAttachment) bool {
	return l.known && (l.now || attachment == nil || !released(attachment.Status))
}

// released reports whether a node says that it has nothing of Strait.
func released(s v1alpha1.NodeAttachmentStatus) bool {
	return meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReleased)
}

// Reasons of the conditions while Strait is being uninstalled.
const (
	reasonUninstall = "Uninstall"
	reasonGone      = "NothingLeft"
	reasonRemoving  = "Removing"
)

// uninstallStatus is the status of a node that has nothing, or is about to: kernel says what keeps
// it, empty if nothing does.
func uninstallStatus(gone bool, kernel string) v1alpha1.NodeAttachmentStatus {
	is := metav1.Condition{Type: v1alpha1.ConditionReleased, Status: metav1.ConditionFalse, Reason: reasonRemoving,
		Message: joinSentences("links, routes, rules and the nftables table are being removed", kernel)}
	switch {
	case gone:
		is.Status, is.Reason, is.Message = metav1.ConditionTrue, reasonGone, "no link, route, rule or nftables table of Strait is left"
	case kernel != "":
		is.Reason = reasonKernel
	}
	return v1alpha1.NodeAttachmentStatus{Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reasonUninstall,
		Message: "Strait is being uninstalled; to keep it, take the annotation " + v1alpha1.UninstallAnnotation + " from ClusterNetwork " + v1alpha1.ClusterNetworkName,
	}, is}}
}
