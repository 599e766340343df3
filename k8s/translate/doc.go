// Package translate turns the objects of a cluster into the configuration of one of
// its gateways. It is pure: the same objects give the same configuration, and the
// result is always valid.
//
// What is wrong with one node, pod or peer leaves that one out. What is wrong with a
// grant leaves the grant out, so that nothing is ever granted by mistake. Each is told
// as a Problem that names the object, the field and the remedy.
package translate
