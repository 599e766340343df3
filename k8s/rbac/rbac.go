// Package rbac is what each of Strait's programs needs to be granted in a cluster, as
// YAML documents. What one of them cannot do without a rule here, its tests show: they
// run it with these rules and no more.
package rbac

import _ "embed"

// Controller is for `strait controller`: a ClusterRole for what belongs to no namespace,
// a Role in its own namespace, and a Role in each namespace that tells it of the
// cluster. All have the name strait-controller. A Role without a namespace is for the one
// that the controller runs in.
//
//go:embed controller.yaml
var Controller []byte

// Gateway is for `strait gateway`, a ClusterRole. It reads no Secret: its keys are
// mounted.
//
//go:embed gateway.yaml
var Gateway []byte

// Node is for `strait node`, a ClusterRole.
//
//go:embed node.yaml
var Node []byte
