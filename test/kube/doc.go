// Package kube starts real clusters without nodes for tests: an etcd and a
// kube-apiserver each, on loopback, in a folder of their own.
//
//	c := kube.Start(t)                  // or kube.Shared(t), with kube.Main in TestMain
//	c.InstallCRDs(t, crds.Files)
//	client := dynamic.NewForConfigOrDie(c.Admin())
//
// Nothing else of a control plane runs: no controller makes Pods of Deployments,
// collects garbage or removes the contents of namespaces. RBAC is on and anonymous
// requests are refused, as in any cluster.
//
// The programs are built once by test/kube/prepare. Where they are missing, tests
// skip and say so.
package kube
