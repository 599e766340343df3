// Package translate converts the objects of a cluster to the configuration of one of its
// gateways. It has no side effects: the same objects give the same configuration, and the
// result is always valid.
//
// An invalid node, pod or peer is left out. An invalid grant is left out, so that nothing
// is granted by mistake. Each is reported as a Problem with the object, the field and the
// remedy.
package translate
