// Package lender runs the pods of another cluster in this one. It decides what it does for the
// borrower of that cluster, and acts with its own rights, in the namespaces that are lent and
// nowhere else.
//
//	borrower ── list, templates ──► State ──► Slot ──► Decide ──► record, twin
//	borrower ◄──────── status ─────── State ◄─────────── Decide
//
// The record of a pod is a core/v1 PodTemplate with the pod's name, in the twin's namespace.
// It is what makes a twin again when the borrower is away: the API server of this cluster
// validates it and sets its defaults, quotas count it, and it needs no CustomResourceDefinition.
// Its labels have the pod's UID in the consumer, its annotations what happened to its twins.
// The twin is a bare pod of the same name, owned by the record, so two cannot exist at once.
//
// Decide is a function of what is known about one pod and returns at most one write. Caches
// may be late, so a write that destroys something names what has to be read from the API
// server first.
package lender
