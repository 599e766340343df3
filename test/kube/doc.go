// Package kube starts real clusters without nodes for tests: an etcd and a kube-apiserver
// each, on loopback, in separate directories.
//
//	c := kube.Start(t)                  // or kube.Shared(t), with kube.Main in TestMain
//	c.InstallCRDs(t, crds.Files)
//	client := dynamic.NewForConfigOrDie(c.Admin())
//
// No other part of a control plane runs: no controller creates Pods of Deployments,
// collects garbage or removes the contents of namespaces, unless a test starts it
// (StartControllerManager, StartScheduler). RBAC is on and anonymous requests are rejected,
// as in any cluster.
//
// test/kube/prepare builds the programs once. If they are missing, tests skip with a
// message.
package kube
