// Package gather puts what there is to know of Strait in some clusters into one archive,
// for somebody who was not there.
//
//	objects, workloads  what is allowed, field by field     allow.go, objects.go
//	logs, metrics,
//	kernels of nodes    asked of the pods                    inside.go
//	secrets             replaced, wherever they stand        secrets.go
//	the archive         bounded, with an index for browsers  archive.go, index.go
//
// No secret is to leave the cluster, and that is held twice. What is known to hold none is
// copied, and all else left out: environments, annotations, the contents of Secrets and
// ConfigMaps. And every byte passes a scanner that replaces what looks like a key, a token
// or an invite, and everything that is the content of a Secret of Strait.
//
// What cannot be read is told in the archive, and ends nothing.
package gather
