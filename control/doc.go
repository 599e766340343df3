// Package control is the control channel between the gateways of two clusters: HTTP/1.1 and JSON over TCP connections
// inside the tunnel, so WireGuard has authenticated both ends.
//
//	GET /versions          {"versions": [1]}
//	PUT /v1/announcement   an Announcement: what the sender's cluster grants and the
//	                       endpoints and keys of its gateways
//
//	GET /v1/services           the Services that the receiver's cluster exports, after a
//	                           position in its changes: see below
//
//	200 {}                     accepted
//	409 {"refused": "..."}     understood but not accepted, with a reason for display; with
//	                           "revision": N if that one is in effect and not older
//	400 {"error": "..."}       malformed
//
// A client uses the highest version that both ends support; a gateway supports at least the version before its newest.
// Within a version, unknown fields are ignored, so fields may be added. Announcements are idempotent and repeated. The
// one with the highest revision counts, whichever gateway sends it.
//
// # Exported Services
//
// The importing end asks for the changes after the ones that it has stored, so the exporting end keeps nothing for it, and
// a slow importer delays only itself:
//
//	GET /v1/services?epoch=E&revision=R&snapshot=S&digest=D
//
// E and R are those of the last page that it has stored, S that of a snapshot that is not complete, D the digest of all
// its records. It gets a page with what follows, at once if there is something, otherwise after 5 s:
//
//	{"epoch": "E", "revision": N, "snapshot": S, "more": true, "stale": true, "digest": "D",
//	 "services": [{"namespace": "shop", "name": "web", ...}, ...], "removed": ["shop/db", ...]}
//
// Of another epoch, or of a revision whose removals are forgotten, it gets a snapshot: all records, in pages with the same
// S. At its end the importing end removes everything else. There is no snapshot if D is the digest of the exporting end.
//
//	503                        the far end does not know its exports yet
//
// Input comes from the other cluster and is untrusted: this package checks its form only, and the callers of Serve
// decide whether it is granted.
package control
