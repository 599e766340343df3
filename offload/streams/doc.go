// Package streams passes the streams of a pod on: its logs, and the upgraded connections of exec,
// attach and port-forward. Both agents of offloading are such a proxy:
//
//	API server ──► borrower ══ tunnel ══► lender ──► API server ──► kubelet
//
// A stream ends when either side closes it, and with its session, which is what tells an agent
// that the other one is there.
package streams
