// Package nodes starts real clusters with real nodes for tests, on one machine: an etcd, a
// kube-apiserver, a controller manager and a scheduler each, and nodes with containerd,
// kubelet and kube-proxy, each in separate namespaces.
//
//	lab := nodes.New(t)
//	lab.Start(t, nodes.Options{Name: "a", Index: 1, Nodes: 2}, nodes.Options{Name: "b", Index: 2, Nodes: 2})
//	out, err := lab.Command(t.Context(), "kubectl", "--context=a", "get", "nodes").Output()
//
// The network:
//
//	                    router, where Command runs
//	     172.30.1.254 │                      │ 172.30.2.254
//	   ┌──────────┬───┴──────┐      ┌────────┴─┬──────────┐
//	a/control  a/node-1  a/node-2  b/control  b/node-1  b/node-2    .1 .101 .102
//	              │          │                   │          │
//	         10.0.1.0/24  10.0.2.0/24       10.0.1.0/24  10.0.2.0/24    pods, unless Pods is set
//
// Pods are connected by a bridge on each node and static routes, or by Flannel: Options.CNI.
// Nodes reach all nodes, including those of the other cluster; pods reach pods of their
// cluster. Packets from a pod to the other cluster's nodes have the address of its node.
// Services are in 10.96.0.0/16 in every cluster. In IPv6, nodes are in fd30:0:0:INDEX::/64, pods in
// fd10:0:PODS::/48 and Services in fd96::/112: Options.Families. CoreDNS resolves their names, as
// kubeadm configures it. After StartMetalLB, Services of type LoadBalancer have addresses in the
// network of the nodes. There is no enforcement of NetworkPolicies, and no image except
// those that are loaded.
//
// Everything ends with the test, even if the test is killed: processes and namespaces end
// with it, and the next New removes remaining files and cgroups.
//
// It needs root, the packages in test/packages, and the programs listed in the file
// programs, built by test/kube/prepare.
package nodes
