// Package control is what the gateways of two clusters tell each other: HTTP/1.1 and
// JSON over TCP connections inside the tunnel, so WireGuard has proved who is there.
//
//	GET /versions          {"versions": [1]}
//	PUT /v1/announcement   an Announcement: what the sender's cluster grants and where
//	                       its gateways are
//
//	200 {}                     accepted
//	409 {"refused": "..."}     understood and not accepted, with the reason for people
//	400 {"error": "..."}       malformed
//
// A caller takes the highest version that both ends speak; a gateway speaks at least
// the version before its newest. Within a version, unknown fields are ignored, so they
// may be added. Announcements are idempotent: the last one counts, and it is repeated.
//
// What arrives was written by the other cluster and is believed in nothing but its
// form; whether it is granted, the callers of Serve decide.
package control
