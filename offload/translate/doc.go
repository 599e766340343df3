// Package translate converts a pod of the consumer to its twin in the provider, and the twin's
// status back. It has no side effects.
//
//	consumer                      provider
//	pod    ──► Template ──► Judge ──► Twin
//	status ◄── Status   ◄────────── Report
//
// Template, in the consumer, drops what has a meaning only there: the node, the scheduling, the
// service account. It refuses a field that would change its meaning in the twin. Judge, in the
// provider, does not trust that: it accepts exactly what Template can produce. Both use one
// list of allowed fields; a field that is not on it is refused. The Pod Security level of the
// twin's namespace judges again what remains.
//
// Addresses are those of the provider until Status maps them to the consumer's.
package translate
