package controller

import _ "embed"

// RBAC is what a controller may do, as YAML documents: a ClusterRole for what belongs to
// no namespace, a Role in its own namespace for the lease, and a Role in each namespace
// that tells it of the cluster. All have the name strait-controller. A Role without a
// namespace is for the one that the controller runs in.
//
//go:embed rbac.yaml
var RBAC []byte
