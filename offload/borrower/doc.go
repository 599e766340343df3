// Package borrower is the virtual node: it makes pods of this cluster run in another one. To the
// API server it is the kubelet of that node, whose identity it impersonates, with a kubelet's
// rights and no others.
//
//	pods of the node ──► List ──► the lender
//	status of a pod  ◄── Decide ◄── what the lender says about it
//
// Before a pod is first named to the lender, its status gets the condition strait.dev/Offered.
// From then on only the lender can say that it has no twin: the pod object stays until it does.
// A pod without the condition was never sent, so its object is removed when it is deleted.
//
// Each run has a term. It reads the pods of its node only when the lender has fenced the runs of
// lower terms, so its list has all pods that the lender knows.
//
// While the lender is silent, the borrower is silent: it renews no lease and writes neither the
// node nor pods, but it makes the node again if it was deleted. The control plane then marks the
// node as Unknown and its pods as not ready, which it does not do for a node that declares itself
// not ready.
package borrower
