// Package protocol is the protocol between the two agents of offloading: the borrower, in the
// cluster whose pods run elsewhere (the consumer), and the lender, in the cluster that runs
// them (the provider). It is HTTP/1.1 and JSON over mutual TLS, inside the tunnel. Each side
// accepts one certificate, whose fingerprint the other cluster announced through WireGuard.
// The borrower initiates all connections.
//
//	GET /versions             {"versions": [1]}
//	PUT /v1/desired           a Desired: all pods that the consumer wants to run, or to end, and
//	                          the objects that they need
//	PUT /v1/templates/{hash}  the template of a pod, a corev1.PodTemplateSpec
//	PUT /v1/objects/{hash}    a Content: that of an object
//	GET /v1/status?term=N     a stream of Messages, one JSON value in each line
//	GET /v1/pods/{uid}/log    the log of a container
//	GET, POST /v1/pods/{uid}/{exec,attach,portforward}
//	                          an upgrade to SPDY/3.1 or WebSocket, as of the Kubernetes API
//
//	204                     accepted
//	400 {"error": "..."}    malformed, or not what the list needs
//	409 {"error": "..."}    fenced: of a former term, epoch or sequence
//	429 {"error": "..."}    too many streams of pods
//	503 {"error": "..."}    the lender has not read its own cluster yet
//
// The status stream begins with a Hello and a snapshot of all pods, which Synced ends;
// changes and heartbeats follow. A new stream ends the one before. The streams of pods end with the
// status stream that was there when they began: its silence is that of the link.
//
// All requests are idempotent and describe a state, not a change. Rules:
//
//   - A list counts as a whole or not at all: its digest covers all pods. What is missing from
//     it is to end.
//   - A list has the term of its borrower, which rises with each start, a sequence within the
//     term, and the epoch of the lender to which it is addressed. The lender stores the highest
//     term. So no delayed list, and none of a former borrower, has an effect.
//   - A borrower begins with a status stream, which fences former terms, and reads the pods of its
//     cluster after that: so it knows all pods that a former borrower has named.
//   - A pod is identified by the UID that it has in the consumer.
//   - An object without a hash is one that the borrower cannot read now: its copy stays.
//   - Gone is the only message after which the consumer removes a pod: it has no twin, and none
//     will be made.
//   - A pod that has run, and whose restart policy permits no second run, says so in the list
//     (Once): if its record is gone, no twin is made, and it fails.
//   - Silence is no message: neither side ends anything because the other does not answer.
//
// Input comes from the other cluster and is untrusted: every message is limited in bytes and
// in number, and checked as a whole before it is used.
package protocol
