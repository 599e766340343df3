// Package localsocket has the requests to a gateway on its local socket, and their client.
// The socket is HTTP on a Unix socket, for processes that run as the gateway's own user;
// internal/daemon serves it.
//
//	Call        posts a request                                    call.go
//	Capture     starts a capture of packets                        capture.go
//	AskTrace    asks what the gateway would do with a packet       trace.go
//	TraceTable  answers that question from the gateway's table     trace.go
package localsocket
