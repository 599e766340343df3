// Package fakekube is an in-memory Kubernetes API server, for tests of programs that use
// client-go. Only the transport is replaced: the clients, their decoding of watches and
// their retries are real. There are no sockets and no goroutines, so it works in
// testing/synctest bubbles.
//
//	s := fakekube.New(node, pod)        // with CustomResourceDefinitions
//	c := s.Client(t)                    // or client.New(s.Config())
//
// It behaves like an API server without admission plugins and controllers:
//   - objects have UIDs, resource versions, creation times, generations and managed
//     fields; updates and deletions of another version or UID are conflicts;
//   - server-side apply merges as an API server does, by the schemas of Kubernetes and
//     of the CustomResourceDefinitions (Strait's and those of the Multi-Cluster Services
//     API), whose defaults are set as well;
//   - status is a subresource; main and status requests change only their own part;
//   - lists and watches select by labels and fields and are paged; a watch begins at any
//     version since Compact, in protobuf or JSON;
//   - a client of ServiceAccount may do what its RBAC rules grant and no more.
//
// Stop, Pause, Restore, Compact, Fail and Late inject faults.
//
// Differences from an API server: nothing is validated (no schemas, no CEL), built-in
// resources get no defaults except addresses and ports of Services, a page of a list shows
// the objects at the time of its request, deleted pods and namespaces are removed at once
// (a namespace with its objects), and pods/exec does not exist. Tests of these belong to
// the API tier; see test/kube.
package fakekube
