// Package clusters joins two clusters for real, but for the kubelets: real API servers,
// `strait controller`, gateways without any privilege in network namespaces of their own,
// `strait node` with CAP_NET_ADMIN in the namespaces of nodes, pods that ping. What
// kubelets, the CNI and kube-proxy would do, kubelet_test.go and wiring_test.go do. Both
// clusters use the same range for their pods.
package clusters
