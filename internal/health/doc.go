// Package health serves liveness, readiness and metrics of a process over HTTP. The endpoints are read-only, and there is no
// profiling endpoint.
package health
