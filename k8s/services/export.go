package services

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/services/merge"
)

type reconciliation struct {
	*work
	key
	cluster cluster
	now     time.Time
	wrote   bool
	refused error // by the API server, of the content of an import

	importReady metav1.Condition // of the ServiceImport

	valid, ready metav1.Condition // of the ServiceExport
	conflicts    []merge.Conflict
	verdicts     map[string]verdict // by Peering
}

// run exports the Service, merges it with the exports of remote clusters, and imports the
// result. A failed export or import does not keep the conditions from being set.
func (r *reconciliation) run(ctx context.Context) error {
	export, exporting := r.exports.get(r.String())
	exporting = exporting && export.DeletionTimestamp == nil && !r.cluster.uninstalling
	var all []source
	var failed error
	if exporting {
		var own *source
		if own, failed = r.export(ctx, export); own != nil {
			all = append(all, *own)
		}
	} else {
		failed = r.unexport(ctx)
	}
	var problem string
	var importFailed error
	switch {
	case r.cluster.uninstalling:
		importFailed = r.removeImport(ctx)
	case r.cluster.id == "": // imports stay as they are until the ClusterNetwork has the ID
		problem = "the ID of this cluster is not known yet"
	default:
		remotes, err := r.remotes(ctx)
		all = append(all, remotes...)
		problem, importFailed = r.importAll(ctx, all)
		importFailed = cmp.Or(err, importFailed)
	}
	if problem == "" {
		r.judgeImport(all, importFailed)
	}
	for _, one := range all {
		if problem != "" && one.peering != "" {
			r.verdicts[one.peering] = verdict{message: problem}
		}
	}
	r.judge(r.key, r.verdicts)
	if exporting {
		if problem != "" && r.ready.Status == metav1.ConditionTrue {
			r.ready.Message += "; it is not imported in this cluster: " + problem
		}
		failed = cmp.Or(failed, r.setConditions(ctx, export))
	} else if r.cluster.uninstalling && export != nil {
		failed = cmp.Or(failed, r.removeConditions(ctx, export))
	}
	return cmp.Or(failed, importFailed)
}

// source is an export that counts, with its endpoints in this cluster.
type source struct {
	merge.Export
	groups  []merge.Group
	peering string // empty: of this cluster
	note    string // what is not imported of it; empty: nothing
}

func condition(status metav1.ConditionStatus, reason mcsv1beta1.ServiceExportConditionReason, format string, arguments ...any) metav1.Condition {
	return metav1.Condition{Status: status, Reason: string(reason), Message: client.Clip(fmt.Sprintf(format, arguments...), maxMessage)}
}

const maxMessage = 32768 // bytes, as of the API

// export writes the ExportedService of a ServiceExport, if it is valid, and determines its
// conditions. The result is nil if it is not valid.
func (r *reconciliation) export(ctx context.Context, export *mcsv1beta1.ServiceExport) (*source, error) {
	service, ok := r.services.get(r.String())
	switch {
	case !ok:
		r.valid = condition(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonNoService, "Service %s does not exist", r.key)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		r.valid = condition(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonInvalidServiceType, "a Service of type ExternalName cannot be exported")
	case service.Labels[ImportLabel] != "":
		r.valid = condition(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonInvalidServiceType, "Service %s is derived from a ServiceImport; export the Service in its own cluster", r.key)
	default:
		r.valid = condition(metav1.ConditionTrue, mcsv1beta1.ServiceExportReasonValid, "the Service can be exported")
	}
	if r.valid.Status != metav1.ConditionTrue {
		r.ready = condition(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonPending, "the ServiceExport is not valid")
		return nil, r.unexport(ctx)
	}
	groups := r.localGroups()
	record, omitted := recordOf(export, service, groups)
	if err := merge.CheckSize(&record); err != nil {
		r.ready = condition(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonFailed, "the Service is not exported: %v", err)
		return nil, r.unexport(ctx)
	}
	r.ready = condition(metav1.ConditionTrue, mcsv1beta1.ServiceExportReasonExported, "the Service is offered to all remote clusters")
	if omitted > 0 {
		r.ready.Message += fmt.Sprintf("; %d of its endpoints are left out, because at most %d are exported", omitted, merge.MaxRecordEndpoints)
	}
	var err error
	if len(record.Ports) > v1alpha1.MaxServicePorts {
		err = r.unexport(ctx)
		r.ready = condition(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonFailed, "the Service has %d ports, and at most %d are exported; export several Services with a part of the ports each", len(record.Ports), v1alpha1.MaxServicePorts)
	} else if err = r.writeExported(ctx, record); err != nil { // the Service is imported in this cluster nevertheless
		r.ready = condition(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonFailed, "the Service is not exported: %v", err)
	}
	for i := range groups {
		groups[i].Cluster = r.cluster.id
	}
	own := record.DeepCopy()
	own.Labels, own.Annotations = merge.Exported(own.Labels, true), merge.Exported(own.Annotations, false)
	return &source{Export: merge.Export{Cluster: r.cluster.id, Record: own, Labels: own.Labels, Annotations: own.Annotations}, groups: merge.Combine(groups)}, err
}

// recordOf returns the record of an exported Service, and how many of its endpoints it
// leaves out.
func recordOf(export *mcsv1beta1.ServiceExport, service *corev1.Service, groups []merge.Group) (record v1alpha1.ServiceRecord, omitted int) {
	record, omitted = merge.RecordOf(service, groups)
	record.Namespace, record.Name, record.ExportedAt = export.Namespace, export.Name, export.CreationTimestamp
	record.Labels, record.Annotations = export.Spec.ExportedLabels, export.Spec.ExportedAnnotations
	return record, omitted
}

func (r *reconciliation) localGroups() []merge.Group {
	return merge.GroupsOf(r.slices.list(byService, r.String()), func(*discoveryv1.Endpoint) bool { return true })
}

func (r *reconciliation) writeExported(ctx context.Context, record v1alpha1.ServiceRecord) error {
	is, ok := r.exported.get(r.Namespace + "/" + r.exportedName())
	if ok && equality.Semantic.DeepEqual(is.Spec, record) {
		return nil
	}
	r.wrote = true
	if !ok {
		_, err := r.exported.create(ctx, &v1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.exportedName()}, Spec: record})
		return err
	}
	next := is.DeepCopy()
	next.Spec = record
	_, err := r.exported.update(ctx, next)
	return err
}

func (r *reconciliation) unexport(ctx context.Context) error {
	is, ok := r.exported.get(r.Namespace + "/" + r.exportedName())
	if !ok {
		return nil
	}
	return remove(ctx, r, r.exported, is)
}

func (r *reconciliation) setConditions(ctx context.Context, export *mcsv1beta1.ServiceExport) error {
	conflict := condition(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonNoConflicts, "all clusters that export the Service define it in the same way")
	if len(r.conflicts) > 0 {
		conflict = condition(metav1.ConditionTrue, mcsv1beta1.ServiceExportConditionReason(merge.Reasons(r.conflicts)), "%s", merge.Messages(r.conflicts))
	}
	next, changed := export.DeepCopy(), false
	for kind, c := range map[mcsv1beta1.ServiceExportConditionType]metav1.Condition{
		mcsv1beta1.ServiceExportConditionValid: r.valid, mcsv1beta1.ServiceExportConditionReady: r.ready, mcsv1beta1.ServiceExportConditionConflict: conflict,
	} {
		c.Type, c.ObservedGeneration, c.LastTransitionTime = string(kind), export.Generation, metav1.Time{Time: r.now.Truncate(time.Second)}
		changed = meta.SetStatusCondition(&next.Status.Conditions, c) || changed
	}
	return r.writeExportStatus(ctx, next, changed)
}

var exportConditions = []string{
	string(mcsv1beta1.ServiceExportConditionValid), string(mcsv1beta1.ServiceExportConditionReady), string(mcsv1beta1.ServiceExportConditionConflict),
}

func (r *reconciliation) removeConditions(ctx context.Context, export *mcsv1beta1.ServiceExport) error {
	next, changed := export.DeepCopy(), false
	for _, kind := range exportConditions {
		changed = meta.RemoveStatusCondition(&next.Status.Conditions, kind) || changed
	}
	return r.writeExportStatus(ctx, next, changed)
}

func (r *reconciliation) writeExportStatus(ctx context.Context, next *mcsv1beta1.ServiceExport, changed bool) error {
	if !changed {
		return nil
	}
	r.wrote = true
	return r.exports.updateStatus(ctx, next)
}
