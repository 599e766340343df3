package nodehelper

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// uninstalling tracks whether Strait is being uninstalled: then nothing of it is desired on
// the node.
//
// The uninstall command waits for the condition Released of the node. So while the
// condition is true, nothing is set up: a node that is attached again removes the condition
// before it changes its kernel.
type uninstalling struct {
	known bool // there was a ClusterNetwork
	now   bool
	gone  bool // nothing of Strait is in the kernel, and nothing is desired
}

// observe records the ClusterNetwork, nil if there is none, and reports whether Strait is
// being uninstalled. Deletion of the object changes nothing: in the course of an uninstall
// it is deleted before the helper, and its last state holds.
func (l *uninstalling) observe(network *v1alpha1.ClusterNetwork) bool {
	if network != nil {
		_, asked := network.Annotations[v1alpha1.UninstallAnnotation]
		l.known, l.now = true, asked
	}
	return l.now
}

// mayChange reports whether the kernel may be changed: not before it is known whether
// Strait is being uninstalled, nor while the node still has the condition Released.
func (l *uninstalling) mayChange(attachment *v1alpha1.NodeAttachment) bool {
	return l.known && (l.now || attachment == nil || !released(attachment.Status))
}

func released(s v1alpha1.NodeAttachmentStatus) bool {
	return meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReleased)
}

// Reasons of the conditions while Strait is being uninstalled.
const (
	reasonUninstall = "Uninstall"
	reasonGone      = "NothingLeft"
	reasonRemoving  = "Removing"
)

// uninstallStatus returns the status of a node during an uninstall. kernel is the error
// that prevents removal, empty if there is none.
func uninstallStatus(gone bool, kernel string) v1alpha1.NodeAttachmentStatus {
	is := metav1.Condition{Type: v1alpha1.ConditionReleased, Status: metav1.ConditionFalse, Reason: reasonRemoving,
		Message: joinSentences("removing links, routes, rules and the nftables table", kernel)}
	switch {
	case gone:
		is.Status, is.Reason, is.Message = metav1.ConditionTrue, reasonGone, "no link, route, rule or nftables table of Strait is left"
	case kernel != "":
		is.Reason = reasonKernel
	}
	return v1alpha1.NodeAttachmentStatus{Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reasonUninstall,
		Message: "Strait is being uninstalled; to keep it, remove the annotation " + v1alpha1.UninstallAnnotation + " from ClusterNetwork " + v1alpha1.ClusterNetworkName,
	}, is}}
}
