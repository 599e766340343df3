package operator

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// refusal says why this cluster does not import a Service that it received over a Peering.
func (o *serviceObjects) refusal(s types.NamespacedName, peering string) string {
	p := o.peerings[peering]
	switch {
	case p == nil:
		return fmt.Sprintf("it was received over Peering %s, which is deleted", peering)
	case p.Spec.Services.ImportFrom == v1alpha1.ImportNone:
		return fmt.Sprintf("Peering %s imports no Services; set spec.services.importFrom to import some", peering)
	case p.Spec.Services.ImportFrom == v1alpha1.ImportListed && !slices.Contains(p.Spec.Services.Namespaces, s.Namespace):
		return fmt.Sprintf("Peering %s does not import from namespace %s; add it to spec.services.namespaces to import it", peering, s.Namespace)
	case !o.namespaces[s.Namespace]:
		return fmt.Sprintf("namespace %s does not exist in this cluster; create it to import the Service", s.Namespace)
	case !linkUp(p):
		return fmt.Sprintf("no link to cluster %s is up; run strait status %s", remoteOf(p), peering)
	case p.Status.Services != nil && p.Status.Services.Message != "":
		return fmt.Sprintf("Peering %s: %s", peering, p.Status.Services.Message)
	}
	return fmt.Sprintf("the controller has not imported it from cluster %s yet; if this persists, check the log of the controller", remoteOf(p))
}

// linkUp reports whether a gateway of a Peering has a link that is up.
func linkUp(p *v1alpha1.Peering) bool {
	return slices.ContainsFunc(p.Status.Gateways, func(g v1alpha1.GatewayStatus) bool { return g.LinkUp })
}

// notExportedReason explains why a ServiceExport is not in effect, empty if it is.
func notExportedReason(e *mcsv1beta1.ServiceExport) string {
	if e.DeletionTimestamp != nil {
		return "the ServiceExport is being deleted"
	}
	for _, t := range []mcsv1beta1.ServiceExportConditionType{mcsv1beta1.ServiceExportConditionValid, mcsv1beta1.ServiceExportConditionReady} {
		switch c := meta.FindStatusCondition(e.Status.Conditions, string(t)); {
		case c == nil || c.ObservedGeneration != 0 && c.ObservedGeneration < e.Generation:
			return "the controller has not processed the ServiceExport yet; if this persists, check that the controller runs, and that the values of the chart do not disable Services"
		case c.Status != metav1.ConditionTrue:
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return ""
}

// notImportedReason explains why a ServiceImport cannot be used, empty if it can.
func notImportedReason(i *mcsv1beta1.ServiceImport) string {
	if i.DeletionTimestamp != nil {
		return "the ServiceImport is being deleted"
	}
	if c := meta.FindStatusCondition(i.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady)); c != nil && c.Status != metav1.ConditionTrue {
		return cmp.Or(c.Message, c.Reason)
	}
	if i.Spec.Type == mcsv1beta1.ClusterSetIP && len(i.Spec.IPs) == 0 {
		return "the ServiceImport has no IP address yet"
	}
	return ""
}
