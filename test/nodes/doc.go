// Package nodes starts real clusters with real nodes for tests, on one machine: an etcd, a
// kube-apiserver, a controller manager and a scheduler each, and nodes with containerd,
// kubelet and kube-proxy, each in namespaces of its own.
//
//	lab := nodes.New(t)
//	lab.Start(t, nodes.Options{Name: "a", Index: 1, Nodes: 2}, nodes.Options{Name: "b", Index: 2, Nodes: 2})
//	out, err := lab.Command(t.Context(), "kubectl", "--context=a", "get", "nodes").Output()
//
// It is wired like this, and with nothing else:
//
//	                    router, where Command runs
//	     172.30.1.254 │                      │ 172.30.2.254
//	   ┌──────────┬───┴──────┐      ┌────────┴─┬──────────┐
//	a/control  a/node-1  a/node-2  b/control  b/node-1  b/node-2    .1 .101 .102
//	              │          │                   │          │
//	         10.0.1.0/24  10.0.2.0/24       10.0.1.0/24  10.0.2.0/24    pods
//
// Nodes reach nodes, also of the other cluster, and pods those of their own cluster. What
// a pod sends to the other cluster's nodes leaves under its own node's address. Services
// are in 10.96.0.0/16 in every cluster. There are no names, no load balancers, nothing
// that enforces NetworkPolicies, and no image but those that are loaded.
//
// Everything ends with the test, also when it is killed: processes die with it, namespaces
// with them, and what is then left of files and cgroups is removed by the next New.
//
// It needs root, the packages in test/packages, and what the file programs lists built by
// test/kube/prepare.
package nodes
