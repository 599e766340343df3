// Package control is the control channel between the gateways of two clusters: HTTP/1.1 and JSON over TCP connections
// inside the tunnel, so WireGuard has authenticated both ends.
//
//	GET /versions          {"versions": [1]}
//	PUT /v1/announcement   an Announcement: what the sender's cluster grants and the
//	                       endpoints and keys of its gateways
//
//	200 {}                     accepted
//	409 {"refused": "..."}     understood but not accepted, with a reason for display; with
//	                           "revision": N if that one is in effect and not older
//	400 {"error": "..."}       malformed
//
// A client uses the highest version that both ends support; a gateway supports at least the version before its newest.
// Within a version, unknown fields are ignored, so fields may be added. Announcements are idempotent and repeated. The
// one with the highest revision counts, whichever gateway sends it; without revisions, which earlier releases do not
// send, the last one.
//
// Input comes from the other cluster and is untrusted: this package checks its form only, and the callers of Serve
// decide whether it is granted.
package control
