// Package gather writes a support bundle: an archive with the state of Strait in some
// clusters, for analysis elsewhere.
//
//	objects, workloads  allowed fields only                 allow.go, objects.go, services.go, offload.go
//	logs, metrics,
//	kernels of nodes    read from the pods                  podcontents.go
//	secrets             redacted wherever they occur        secrets.go
//	archive             bounded, with an HTML index         archive.go, index.go
//
// No secret may leave the cluster, which is ensured twice. Only fields that are known to
// contain none are copied, and all others are left out: environments, annotations, the
// contents of Secrets and ConfigMaps. And a scanner redacts in all text what looks like a
// key, a token or an invite, and all contents of Strait's Secrets.
//
// Read errors are recorded in the archive and do not end the command.
package gather
