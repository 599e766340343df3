// Package clusters connects two clusters, with everything real except the kubelets: API
// servers, `strait controller`, unprivileged gateways in separate network namespaces,
// `strait node` with CAP_NET_ADMIN in the namespaces of nodes, and pods that ping.
// kubelet_test.go and wiring_test.go replace kubelets, the CNI and kube-proxy. Both
// clusters use the same pod CIDR.
package clusters
